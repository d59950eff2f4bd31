#pragma once
// Numbers of the reference kernels: computed in double precision, and rounded once, when stored. A
// kernel stores after reading all inputs, so that its result may overwrite an input.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "qkv/kernels/backend/elements.h"
#include "qkv/kernels/kinds.h"
#include "qkv/kernels/reference/weights.h"

namespace qkv::kernels::reference {

using Doubles = std::vector<double>;

// Element (row, col) of a contiguous matrix with `cols` columns.
inline size_t at(int64_t row, int64_t cols, int64_t col) { return static_cast<size_t>(row * cols + col); }

// Number i.
inline double get(const Elements& from, int64_t i) {
  if (from.dtype == DType::f32) return static_cast<const float*>(from.data)[i];
  return std::bit_cast<float>(uint32_t{static_cast<const BFloat16*>(from.data)[i].bits} << 16);
}

// Stores one number, for kernels whose result does not overlap an input.
inline void store_element(const MutableElements& to, int64_t i, double value, Accumulate accumulate) {
  const auto number = static_cast<float>(accumulate == Accumulate::yes ? get(to, i) + value : value);
  if (to.dtype == DType::f32) {
    static_cast<float*>(to.data)[i] = number;
  } else {
    round_to_bf16(&number, static_cast<BFloat16*>(to.data) + i, 1);
  }
}

// to[r * stride + c] (+)= from[r, c], for rows of `cols` numbers. Null: not wanted.
inline void store(const Doubles& from, int64_t cols, const MutableElements& to, int64_t stride,
                  Accumulate accumulate) {
  if (to == nullptr || cols == 0) return;
  for (size_t i = 0; i < from.size(); ++i) {
    const int64_t row = static_cast<int64_t>(i) / cols, col = static_cast<int64_t>(i) % cols;
    store_element(to, row * stride + col, from[i], accumulate);
  }
}

// Likewise, contiguous.
inline void store(const Doubles& from, const MutableElements& to, Accumulate accumulate = Accumulate::no) {
  store(from, 1, to, 1, accumulate);
}

}  // namespace qkv::kernels::reference
