#pragma once

#include "qkv/ops/tape.h"

namespace qkv {

// Inserts `row` [1, features] before each of `sequences` sequences of equal length: x [sequences * n,
// features] -> [sequences * (n + 1), features]. Throws ShapeError.
Variable prepend(const Variable& row, const Variable& x, int64_t sequences);

}  // namespace qkv
