#pragma once
// What ops on matrices check of their arguments. All throw ShapeError, beginning with the operation's name.

#include "qkv/ops/variable.h"

namespace qkv {

// A contiguous [tokens, features].
void require_matrix(const char* operation, const Variable& x);
// [tokens, features], which may be columns of a wider matrix.
void require_rows(const char* operation, const Variable& x);
// Two contiguous matrices of one shape.
void require_same(const char* operation, const Variable& x, const Variable& y);

// The gradient of x if it is wanted, else an undefined tensor.
GradientSlot gradient_slot_of(const Variable& x);

}  // namespace qkv
