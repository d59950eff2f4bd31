#pragma once
// Argument checks of ops. Messages begin with the operation's name. All throw ShapeError unless stated
// otherwise.

#include "qkv/ops/dropout.h"
#include "qkv/ops/variable.h"

namespace qkv {

// x is a contiguous [tokens, features].
void require_matrix(const char* operation, const Variable& x);
// x is [tokens, features], possibly columns of a wider matrix.
void require_rows(const char* operation, const Variable& x);
// x and y are contiguous matrices of one shape.
void require_same(const char* operation, const Variable& x, const Variable& y);
// Throws UsageError for a rate that is not a probability or rounds to 1, which could not be scaled up.
void require_dropout(const char* operation, const Dropout& dropout);

// The gradient slot of x if it requires a gradient, otherwise undefined.
GradientSlot gradient_slot_of(const Variable& x);

}  // namespace qkv
