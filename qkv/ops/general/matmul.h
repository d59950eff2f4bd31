#pragma once
// Products of two values. (To multiply by weights, use linear().)

#include "qkv/ops/tape.h"

namespace qkv {

// x y over the last two axes: [m, k] [k, n] -> [m, n]. Leading axes are a batch: [b, m, k] [b, k, n] -> [b,
// m, n]; y may be a single matrix. f32. Throws ShapeError naming both shapes.
Variable matmul(const Variable& x, const Variable& y);

// Swaps the last two axes: [..., m, n] -> [..., n, m], a copy.
Variable transpose(const Variable& x);

}  // namespace qkv
