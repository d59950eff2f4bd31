#pragma once
// What decoding remembers between steps. It belongs to a request, never to the model.

#include <cstdint>
#include <span>
#include <vector>

#include "qkv/tensor/ragged.h"

namespace qkv::nn {

// One layer's self-attention keys and values. What a step appends stays where it is: hypotheses are lists of
// pointers, those with a common beginning share it, and reordering copies lists only.
class KeyValueCache {
 public:
  KeyValueCache() = default;
  // Of rows without positions.
  explicit KeyValueCache(int64_t rows) : entries_(static_cast<size_t>(rows)) {}
  // A copy would write where the original does.
  KeyValueCache(KeyValueCache&&) = default;
  KeyValueCache& operator=(KeyValueCache&&) = default;

  int64_t rows() const { return static_cast<int64_t>(entries_.size()); }
  int64_t length(int64_t row) const { return static_cast<int64_t>(entries(row).size()); }
  Tensor lengths() const;  // of all rows, i32 [rows]: where their next tokens stand

  // Appends positions offsets.begin(i) to offsets.end(i) to row i: keys [positions, key width], values
  // [positions, value width], any strides. The first call sets the widths.
  void append(const Tensor& keys, const Tensor& values, const Offsets& offsets);
  // Row i becomes what row parents[i] was; the number of rows becomes parents.size().
  void reorder(std::span<const int32_t> parents);

  // Of each position of a row: its keys, and behind them its values.
  std::span<const float* const> entries(int64_t row) const { return entries_[static_cast<size_t>(row)]; }

 private:
  std::vector<Tensor> blocks_;  // [positions, key width + value width]
  int64_t free_ = 0;            // positions of the last block that nothing is in
  std::vector<std::vector<const float*>> entries_;
};

// One layer's keys and values of the encoder's output, computed once a sentence and shared by its hypotheses.
struct MemoryKeyValues {
  Tensor keys, values;  // [memory tokens, width]
};

}  // namespace qkv::nn
