#pragma once
// Softmax over the innermost axis of a value of any shape. Both functions throw ShapeError.

#include "qkv/ops/tape.h"

namespace qkv {

// exp(x_i) / sum_j exp(x_j), computed after subtracting the maximum to avoid overflow. An x_i of -infinity
// gives 0; a row of only -infinity gives NaN.
Variable softmax(const Variable& x);
// x_i - log(sum_j exp(x_j)), accurate also if the softmax underflows to 0.
Variable log_softmax(const Variable& x);

}  // namespace qkv
