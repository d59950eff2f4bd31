#pragma once
// The inputs of int8 products, rounded to 8 bits.

#include <cstdint>

#include "qkv/kernels/cpu/matmul.h"
#include "qkv/tensor/storage.h"

namespace qkv::kernels {

// Row r stands for (numbers[r * stride + i] - zeros[r]) * scales[r], with numbers 0..255. Or they lie in
// tiles (int8_sums.h): kAmxRows rows together from (r / kAmxRows) * kAmxRows * stride on, the last ones of
// zeros.
//
// A row's range holds 0, so that one without negative numbers (behind a ReLU) has all 256 steps for the
// others: with symmetric numbers half of them would be idle. A row that holds a NaN or an infinity has the
// scale NaN.
struct QuantizedRows {
  Storage memory = {};
  int64_t stride = 0;  // a multiple of 64; numbers past the columns are 0
  bool tiles = false;
  uint8_t* numbers = nullptr;
  float* scales = nullptr;
  int32_t* zeros = nullptr;
};

QuantizedRows quantize_inputs(const Matrix& a, bool tiles);

}  // namespace qkv::kernels
