#pragma once

#include "qkv/ops/tape.h"

namespace qkv {

// `row` [1, features] in front of each of so many equal sequences of rows: x [sequences * n, features] ->
// [sequences * (n + 1), features]. Throws ShapeError.
Variable prepend(const Variable& row, const Variable& x, int64_t sequences);

}  // namespace qkv
