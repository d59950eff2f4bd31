#pragma once
// Weights in f32, bf16, f16 and int8: element access, and conversion from float.

#include <cstdint>

#include "qkv/kernels/weight_rows.h"

namespace qkv::kernels::reference {

// Element (row, col), exactly.
double element(const WeightRows& weights, int64_t row, int64_t col);

// The kernels of weight_rows.h.
void round_to_bf16(const float* from, BFloat16* to, int64_t count);
void round_to_f16(const float* from, Float16* to, int64_t count);
void quantize_rows(const float* from, int64_t rows, int64_t cols, int8_t* to, float* scales);
void widen_rows(const WeightRows& from, float* to);

}  // namespace qkv::kernels::reference
