#pragma once
// Numbers of the reference kernels: computed in double precision, and rounded to float once, when stored. A
// kernel stores after reading all inputs, so that its result may overwrite an input.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "qkv/kernels/kinds.h"

namespace qkv::kernels::reference {

using Doubles = std::vector<double>;

// Element (row, col) of a contiguous matrix with `cols` columns.
inline size_t at(int64_t row, int64_t cols, int64_t col) { return static_cast<size_t>(row * cols + col); }

// Stores one element, for kernels whose result does not overlap an input.
inline void store_element(float& to, double value, Accumulate accumulate) {
  to = static_cast<float>(accumulate == Accumulate::yes ? to + value : value);
}

// to[r * stride + c] (+)= from[r, c], for rows of `cols` numbers. Null: not wanted.
inline void store(const Doubles& from, int64_t cols, float* to, int64_t stride, Accumulate accumulate) {
  if (to == nullptr || cols == 0) return;
  for (size_t i = 0; i < from.size(); ++i) {
    const int64_t row = static_cast<int64_t>(i) / cols, col = static_cast<int64_t>(i) % cols;
    store_element(to[row * stride + col], from[i], accumulate);
  }
}

// Likewise, contiguous.
inline void store(const Doubles& from, float* to, Accumulate accumulate = Accumulate::no) {
  store(from, 1, to, 1, accumulate);
}

}  // namespace qkv::kernels::reference
