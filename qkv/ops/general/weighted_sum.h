#pragma once

#include "qkv/ops/tape.h"

namespace qkv {

// sum(x * coefficients) -> [1]: a scalar function of any value, for gradient checks. Throws ShapeError if the
// shapes differ.
Variable weighted_sum(const Variable& x, const Tensor& coefficients);

}  // namespace qkv
