#pragma once

#include "qkv/ops/tape.h"

namespace qkv {

// The same elements in another shape, without a copy. Throws ShapeError.
Variable reshape(const Variable& x, const Shape& shape);

}  // namespace qkv
