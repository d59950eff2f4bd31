#pragma once

#include "qkv/ops/tape.h"

namespace qkv {

// factor * x, f32 of any shape. Throws ShapeError.
Variable scaled(const Variable& x, float factor);

}  // namespace qkv
