#pragma once
// Inputs of products with weights in blocks: rounded to 8 bits in groups of 32, with a scale each, as ggml's
// q8_0 has them.

#include <cstdint>

#include "qkv/kernels/cpu/matmul.h"
#include "qkv/kernels/cpu/products/f32_matrix.h"
#include "qkv/tensor/storage.h"

namespace qkv::kernels {

// Number i of row r is numbers[r][i] * scales[r][i / 32], with numbers from -127 to 127. A group with a NaN
// or an infinity has the scale NaN.
struct GroupedRows {
  static constexpr int64_t kGroup = 32;

  Storage memory = {};
  bool words = false;       // numbers are int16_t, else int8_t
  int64_t cols = 0;         // a multiple of kGroup
  void* numbers = nullptr;  // [rows, cols]
  float* scales = nullptr;  // [rows, cols / 32]
  int32_t* sums = nullptr;  // [rows, cols / 16]: of 16 numbers each
  float* shifts = nullptr;  // [rows, cols / 32]: a group's scale times the sum of its numbers

  int64_t groups() const { return cols / kGroup; }
};

// Requires a multiple of 32 columns.
GroupedRows quantize_by_groups(const F32Matrix& a, bool words);

}  // namespace qkv::kernels
