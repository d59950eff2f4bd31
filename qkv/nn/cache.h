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
  // A copy would write where the original does.
  KeyValueCache(KeyValueCache&&) = default;
  KeyValueCache& operator=(KeyValueCache&&) = default;

  int64_t rows() const { return static_cast<int64_t>(entries_.size()); }
  int64_t length() const { return entries_.empty() ? 0 : static_cast<int64_t>(entries_[0].size()); }

  // Appends a position to each row: keys [rows, key width], values [rows, value width], any strides. The
  // first call sets rows and widths.
  void append(const Tensor& keys, const Tensor& values);
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
