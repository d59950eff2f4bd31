#pragma once
// What decoding remembers between steps. It belongs to a request, never to the model.

#include <cstdint>
#include <span>

#include "qkv/tensor/ragged.h"

namespace qkv::nn {

// One layer's self-attention keys and values for hypotheses that all have the same number of positions so
// far.
class KeyValueCache {
 public:
  int64_t rows() const { return rows_; }
  int64_t length() const { return length_; }

  // Appends a position to each row: keys [rows, width], values [rows, width], any strides. The first call
  // sets rows and widths.
  void append(const Tensor& keys, const Tensor& values);
  // Row i becomes what row parents[i] was; the number of rows becomes parents.size().
  void reorder(std::span<const int32_t> parents);

  // [rows * capacity, width]: row i's positions begin at i * capacity().
  const Tensor& keys() const { return keys_; }
  const Tensor& values() const { return values_; }
  int64_t capacity() const { return capacity_; }

 private:
  Tensor keys_, values_;
  int64_t rows_ = 0, length_ = 0, capacity_ = 0;
  int64_t most_rows_ = 0;  // that there have been
};

// One layer's keys and values of the encoder's output, computed once a sentence and shared by its hypotheses.
struct MemoryKeyValues {
  Tensor keys, values;  // [memory tokens, width]
};

}  // namespace qkv::nn
