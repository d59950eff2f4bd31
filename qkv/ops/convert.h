#pragma once
// Dtype conversions. A gradient has the dtype of its value.

#include "qkv/ops/tape.h"

namespace qkv {

// Converts f32 or bf16 to f32, exactly.
Variable to_f32(const Variable& x);

// Rounds f32 or bf16 to the nearest bf16, ties to even. The gradient ignores the rounding.
Variable to_bf16(const Variable& x);

// Either, by dtype: f32 or bf16.
Variable in_dtype(const Variable& x, DType dtype);

}  // namespace qkv
