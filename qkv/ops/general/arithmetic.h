#pragma once
// Arithmetic of f32 values, element by element, with broadcasting: axes are counted from the back, and where
// one of the two has extent 1 or no such axis, its elements repeat. [4, 1, 3] and [5, 3] give [4, 5, 3]. All
// throw ShapeError, naming both shapes.

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
