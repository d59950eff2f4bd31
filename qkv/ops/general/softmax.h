#pragma once
// Softmax over the innermost axis of a value of any shape. Throw ShapeError.

#include "qkv/ops/tape.h"

namespace qkv {

// exp(x_i) / sum_j exp(x_j); the largest is subtracted first, so that nothing overflows. An x_i of -infinity
// gives 0; a row of nothing else gives NaN.
Variable softmax(const Variable& x);
// x_i - log(sum_j exp(x_j)), exact where the softmax is 0.
Variable log_softmax(const Variable& x);

}  // namespace qkv
