#pragma once
// Weight storage dtypes.
//
// bf16 and f16 halve, and int8 quarters, the memory that a decoding step reads. 16-bit weights are widened to
// f32 within a product, and so are ggml's blocks; int8 is multiplied by inputs rounded to 8 bits per row, and
// summed exactly in integers.

#include <cstdint>

#include "qkv/tensor/dtype.h"

namespace qkv::kernels {

// A matrix [rows, cols].
struct WeightRows {
  const void* data = nullptr;
  DType dtype = DType::f32;       // f32, bf16, f16, i8, or one in blocks
  const float* scales = nullptr;  // for i8, [rows]: element (r, c) is data[r][c] * scales[r]
  int64_t rows = 0, cols = 0;
  int64_t stride = cols;  // numbers between rows
};

// The maximum length of int8 rows whose products with 8-bit inputs sum within 32 bits.
inline constexpr int64_t kMaxInt8Cols = 65536;

}  // namespace qkv::kernels
