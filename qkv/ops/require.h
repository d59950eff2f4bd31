#pragma once
// What ops check of their arguments. All throw, beginning with the operation's name: ShapeError where nothing
// else is said.

#include "qkv/ops/dropout.h"
#include "qkv/ops/variable.h"

namespace qkv {

// A contiguous [tokens, features].
void require_matrix(const char* operation, const Variable& x);
// [tokens, features], which may be columns of a wider matrix.
void require_rows(const char* operation, const Variable& x);
// Two contiguous matrices of one shape.
void require_same(const char* operation, const Variable& x, const Variable& y);
// UsageError for a rate that is no probability, or that rounds to 1: then nothing is left to scale up.
void require_dropout(const char* operation, const Dropout& dropout);

// The gradient of x if it is wanted, else an undefined tensor.
GradientSlot gradient_slot_of(const Variable& x);

}  // namespace qkv
