#pragma once

#include "qkv/ops/tape.h"

namespace qkv {

// sum(x * coefficients) -> [1]: a scalar out of anything, for checking gradients. Throws ShapeError where the
// shapes differ.
Variable weighted_sum(const Variable& x, const Tensor& coefficients);

}  // namespace qkv
