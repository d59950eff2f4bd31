#pragma once

#include "qkv/ops/tape.h"

namespace qkv {

// The same numbers in another shape; nothing is copied on the way forward. Throws ShapeError.
Variable reshape(const Variable& x, const Shape& shape);

}  // namespace qkv
