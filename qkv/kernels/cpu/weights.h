#pragma once
// Weight dtype conversions on the CPU.

#include <cstdint>

#include "qkv/kernels/weight_rows.h"

namespace qkv::kernels::cpu {

// Rounds to the nearest bf16, ties to even. NaN stays NaN; values beyond the largest bf16 become infinite.
void round_to_bf16(const float* from, BFloat16* to, int64_t count);

// Quantises each row symmetrically: scale = max |w| / 127, value = round(w / scale). The inputs must be
// finite.
void quantize_rows(const float* from, int64_t rows, int64_t cols, int8_t* to, float* scales);

// Converts all elements to f32, contiguous [rows, cols].
void widen_rows(const WeightRows& from, float* to);

}  // namespace qkv::kernels::cpu
