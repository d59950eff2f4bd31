#pragma once
// Values in another dtype. Gradients are f32 whatever the dtype of the value is.

#include "qkv/ops/tape.h"

namespace qkv {

// The numbers of an f32 or bf16 value as f32, exactly.
Variable to_f32(const Variable& x);

// The nearest bf16 numbers, ties to even; x is f32 or bf16. The gradient passes as if nothing were rounded.
Variable to_bf16(const Variable& x);

}  // namespace qkv
