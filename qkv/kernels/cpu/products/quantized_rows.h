#pragma once
// Inputs of int8 products, rounded to 8 bits.

#include <cstdint>

#include "qkv/kernels/cpu/matmul.h"
#include "qkv/tensor/storage.h"

namespace qkv::kernels {

// Row r is (numbers[r * stride + i] - zeros[r]) * scales[r], with numbers 0..255. In the tiled layout
// (int8_sums.h), kAmxRows rows are stored together from (r / kAmxRows) * kAmxRows * stride on, zero-padded.
//
// A row's range includes 0, so that a row without negative numbers (after a ReLU) has all 256 steps for the
// others; symmetric rounding would waste half of them. A row with a NaN or infinity has the scale NaN.
struct QuantizedRows {
  Storage memory = {};
  int64_t stride = 0;  // a multiple of 64, padded with zeros
  bool tiles = false;
  uint8_t* numbers = nullptr;
  float* scales = nullptr;
  int32_t* zeros = nullptr;
};

QuantizedRows quantize_inputs(const Matrix& a, bool tiles);

}  // namespace qkv::kernels
