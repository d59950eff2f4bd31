#pragma once
// The rows of each sequence of a ragged batch as one row: x [tokens, features] and its offsets give
// [sequences, features]. An empty sequence gives zeros. Throw ShapeError where the offsets do not end with
// the rows.

#include "qkv/ops/tape.h"
#include "qkv/tensor/ragged.h"

namespace qkv {

// The mean of each feature.
Variable segment_mean(const Variable& x, const Offsets& offsets);
// The largest of each feature; the gradient goes to the first row that has it.
Variable segment_max(const Variable& x, const Offsets& offsets);

}  // namespace qkv
