#pragma once
// Products of two values. (Layers multiply by weights with linear(), which packs them once.)

#include "qkv/ops/tape.h"

namespace qkv {

// x y over the last two axes: [m, k] [k, n] -> [m, n]. The axes before them are a batch: [b, m, k] [b, k, n]
// -> [b, m, n]; y may be one matrix for all of x's. f32. Throws ShapeError, naming both shapes.
Variable matmul(const Variable& x, const Variable& y);

// The last two axes exchanged: [..., m, n] -> [..., n, m], a copy.
Variable transpose(const Variable& x);

}  // namespace qkv
