#pragma once
// Parts of values, and values made of parts. The results are copies; negative axes count from the back. All
// throw ShapeError.

#include <vector>

#include "qkv/ops/tape.h"

namespace qkv {

// Elements begin to begin + count along an axis. (Variable::columns is a view along the last.)
Variable slice(const Variable& x, int axis, int64_t begin, int64_t count);

// The parts one after the other along an axis; their other extents are equal, and there is at least one.
Variable concatenate(const std::vector<Variable>& parts, int axis);

// x[rows[0]], x[rows[1]], ... along the outermost axis: x [n, ...], rows i32 [m] -> [m, ...]. A row may come
// more than once: its gradients are added up, in the order of `rows`. Throws DataError for a row that x does
// not have.
Variable gather(const Variable& x, const Tensor& rows);

}  // namespace qkv
