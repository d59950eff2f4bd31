#pragma once

#include "qkv/ops/dropout.h"
#include "qkv/ops/tape.h"
#include "qkv/tensor/ragged.h"

namespace qkv {

// Stochastic depth (Huang et al. 2016): each sequence of x [tokens, features] is set to zero as a whole with
// the probability dropout.rate, or multiplied by dropout.scale(), so that the expected value is x. Sequence i
// is kept if dropout.keeps(i, 0): first_row is the index of sequence 0 in the whole batch. Throws ShapeError
// if the offsets do not match the rows, UsageError for a rate outside [0, 1).
Variable drop_path(const Variable& x, const Offsets& offsets, const Dropout& dropout);

}  // namespace qkv
