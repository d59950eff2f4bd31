#pragma once
// Slicing, concatenation and gathering. The results are copies; negative axes count from the end. All
// functions throw ShapeError.

#include <vector>

#include "qkv/ops/tape.h"

namespace qkv {

// Elements begin to begin + count along an axis. (For the last axis, Variable::columns is a view.)
Variable slice(const Variable& x, int axis, int64_t begin, int64_t count);

// Concatenates at least one part along an axis; all other extents must be equal.
Variable concatenate(const std::vector<Variable>& parts, int axis);

// x[rows[0]], x[rows[1]], ... along the outermost axis: x [n, ...], rows i32 or i64 [m] -> [m, ...].
// Gradients of repeated rows are added in the order of `rows`. Throws DataError for a row out of range.
Variable gather(const Variable& x, const Tensor& rows);

}  // namespace qkv
