#pragma once
// Inputs of int8 products, rounded to 8 bits.

#include <cstdint>

#include "qkv/kernels/cpu/matmul.h"
#include "qkv/kernels/cpu/products/f32_matrix.h"
#include "qkv/tensor/storage.h"

namespace qkv::kernels {

enum class RowLayout {
  bytes,  // a row after the other
  words,  // likewise, 16 bits per number
  tiles,  // of AMX (int8_sums.h): kAmxRows rows together, from (r / kAmxRows) * kAmxRows * stride on
};

// Row r is (q[r][i] - zeros[r]) * scales[r], with q from 0 to 255.
//
// A row's range includes 0, so that a row without negative numbers (after a ReLU) has all 256 steps for the
// others; symmetric rounding would waste half of them. A row with a NaN or infinity has the scale NaN.
struct QuantizedRows {
  Storage memory = {};
  RowLayout layout = RowLayout::bytes;
  int64_t stride = 0;          // in bytes, a multiple of 64; rows are padded with zeros
  uint8_t* numbers = nullptr;  // q
  float* scales = nullptr;
  int32_t* zeros = nullptr;
};

QuantizedRows quantize_inputs(const F32Matrix& a, RowLayout layout);

}  // namespace qkv::kernels
