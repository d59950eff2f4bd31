#pragma once
// Argument checks of ops. Messages begin with the operation's name. All throw ShapeError unless stated
// otherwise.

#include "qkv/ops/dropout.h"
#include "qkv/ops/variable.h"

namespace qkv {

// x is f32 of any shape and strides.
void require_f32(const char* operation, const Tensor& x);
// Whether operations compute with the dtype of x: f32, on devices other than the CPU bf16 too.
bool is_activation(const Tensor& x);
// x has such a dtype, any shape and strides.
void require_activation(const char* operation, const Tensor& x);
// ids, called `what` in the message, as contiguous i32 on their device: themselves, or i64 narrowed in a
// copy. Throws DataError for an i64 outside the range of i32.
Tensor as_ids(const char* operation, const char* what, const Tensor& ids);
// x is a contiguous activation [tokens, features]. Throws UsageError for an undefined variable, as the
// next two do.
void require_matrix(const char* operation, const Variable& x);
// x is an activation [tokens, features], possibly columns of a wider matrix.
void require_rows(const char* operation, const Variable& x);
// x and y have one dtype.
void require_same_dtype(const char* operation, const Variable& x, const Variable& y);
// x and y are contiguous matrices of one shape and dtype.
void require_same(const char* operation, const Variable& x, const Variable& y);
// Throws UsageError for a rate that is not a probability or rounds to 1, which could not be scaled up.
void require_dropout(const char* operation, const Dropout& dropout);

// The gradient slot of x if it requires a gradient, otherwise undefined.
GradientSlot gradient_slot_of(const Variable& x);

}  // namespace qkv
