#pragma once
// Common to operations on values of any shape.

#include "qkv/ops/tape.h"

namespace qkv {

// x itself if its rows are contiguous, otherwise a copy; gradients pass to x either way. Throws ShapeError
// naming the operation if x is no activation (ops/require.h).
Variable contiguous(const char* operation, const Variable& x);
// Likewise, f32 alone.
Variable contiguous_f32(const char* operation, const Variable& x);

}  // namespace qkv
