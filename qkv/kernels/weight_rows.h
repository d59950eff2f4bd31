#pragma once
// Weights as they are kept: row after row, in one of the forms that products and table look-ups read.
//
// bf16 halves, and int8 quarters, the memory that a decoding step has to read. Neither is computed in: bf16
// is widened to f32 on the way into a product; int8 is multiplied by inputs that are rounded to 8 bits row by
// row, and summed exactly in integers.

#include <cstdint>

#include "qkv/tensor/dtype.h"

namespace qkv::kernels {

// A matrix [rows, cols] without gaps.
struct WeightRows {
  const void* data = nullptr;
  DType form = DType::f32;        // f32, bf16 or i8
  const float* scales = nullptr;  // of i8, [rows]: element (r, c) is data[r][c] * scales[r]
  int64_t rows = 0, cols = 0;
};

// The sum of so many products of 8-bit numbers fits into 32 bits.
inline constexpr int64_t kMaxInt8Cols = 65536;

// The nearest bf16, ties to even. NaN stays NaN, and what is beyond the largest bf16 becomes infinite.
void round_to_bf16(const float* from, BFloat16* to, int64_t count);

// Each row by itself, symmetrically: scale = max |w| / 127, number = w / scale, rounded. The numbers must be
// finite.
void quantize_rows(const float* from, int64_t rows, int64_t cols, int8_t* to, float* scales);

// All elements as f32, to [rows, cols].
void widen_rows(const WeightRows& from, float* to);

}  // namespace qkv::kernels
