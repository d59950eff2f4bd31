#pragma once

#include "qkv/ops/tape.h"

namespace qkv {

// factor * x. Throws ShapeError if x is not contiguous.
Variable scaled(const Variable& x, float factor);

}  // namespace qkv
