#pragma once
// Elementwise arithmetic on f32, with broadcasting: axes are aligned at the end; an axis that is missing or
// has extent 1 in one operand is repeated. [4, 1, 3] and [5, 3] give [4, 5, 3]. All functions throw
// ShapeError naming both shapes.

#include "qkv/ops/tape.h"

namespace qkv {

Variable operator+(const Variable& x, const Variable& y);
Variable operator-(const Variable& x, const Variable& y);
Variable operator*(const Variable& x, const Variable& y);
Variable operator/(const Variable& x, const Variable& y);

Variable operator+(const Variable& x, float y);
Variable operator+(float x, const Variable& y);
Variable operator-(const Variable& x, float y);
Variable operator-(float x, const Variable& y);
Variable operator*(const Variable& x, float y);
Variable operator*(float x, const Variable& y);
Variable operator/(const Variable& x, float y);
Variable operator/(float x, const Variable& y);
Variable operator-(const Variable& x);

}  // namespace qkv
