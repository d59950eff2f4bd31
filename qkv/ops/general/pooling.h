#pragma once
// Pools each sequence of a ragged batch into one row: x [tokens, features] -> [sequences, features]. An empty
// sequence gives zeros. Throw ShapeError if the offsets do not match the rows.

#include "qkv/ops/tape.h"
#include "qkv/tensor/ragged.h"

namespace qkv {

// The mean over the rows.
Variable segment_mean(const Variable& x, const Offsets& offsets);
// The maximum over the rows, per feature; the gradient goes to the first row with the maximum.
Variable segment_max(const Variable& x, const Offsets& offsets);

}  // namespace qkv
