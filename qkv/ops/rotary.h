#pragma once

#include "qkv/ops/tape.h"

namespace qkv {

// Rotary angles: cosines and sines f32 [positions, r / 2], for the first r features of each head.
struct RotaryTable {
  Tensor cosines, sines;
};

// Rotary position embedding (Su et al. 2021): x [tokens, heads * d], possibly columns of a wider matrix, and
// positions i32 or i64 [tokens], rows of the table. In each head, features i and i + r / 2 of the first r
// form a point, which is rotated by the position's angle i, so that scores depend on relative positions; the
// others stay as they are. Table and positions may be on the host. Throws ShapeError, and DataError for a
// position outside the table.
Variable rotary(const Variable& x, int64_t heads, const RotaryTable& table, const Tensor& positions);

}  // namespace qkv
