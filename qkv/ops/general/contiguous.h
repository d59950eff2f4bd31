#pragma once
// What operations on values of any shape share.

#include "qkv/ops/tape.h"

namespace qkv {

// x itself where its rows lie one after the other, else a copy; what leads to x passes gradients on either
// way. Throws ShapeError, naming the operation, where x is not f32.
Variable contiguous_f32(const char* operation, const Variable& x);

}  // namespace qkv
