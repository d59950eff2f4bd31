#pragma once
// The memory of a KV cache: blocks of positions, by number.

#include <cstdint>
#include <span>
#include <vector>

#include "qkv/tensor/tensor.h"

namespace qkv::kernels {

// The blocks of one sequence, of kPositions positions each. A position has a number: number n is row n %
// kPositions of block n / kPositions, its keys followed by its values, in f32, bf16 or q8_0. Positions never
// move.
class CacheBlockTable {
 public:
  static constexpr int64_t kPositions = 16;

  // Appends the blocks of a contiguous tensor [positions, width]; returns the number of its first position.
  // Only the last tensor may end in an incomplete block.
  int32_t append(const Tensor& blocks);
  // Frees the first tensors. Their numbers must not be read any more; the others keep theirs.
  void drop(size_t tensors);
  // A table that shares the first tensors that were not dropped.
  CacheBlockTable share(size_t tensors) const;

  size_t tensors() const { return tensors_.size(); }  // not dropped
  size_t bytes() const;                               // of these
  std::span<const DeviceAddress<void>> blocks() const { return blocks_; }

 private:
  std::vector<Tensor> tensors_;
  std::vector<DeviceAddress<void>> blocks_;  // those of dropped tensors included
};

// Positions of a sequence, by number: the entries that a row of a decoding step attends to, in order.
struct CacheRow {
  std::span<const DeviceAddress<void>> blocks;
  std::span<const int32_t> numbers;  // on the host
};

}  // namespace qkv::kernels
