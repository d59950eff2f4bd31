#pragma once

#include "qkv/ops/tape.h"

namespace qkv {

// Rotary angles: cosines and sines f32 [positions, d / 2] for heads of width d.
struct RotaryTable {
  Tensor cosines, sines;
};

// Rotary position embedding (Su et al. 2021): x [tokens, heads * d], possibly columns of a wider matrix, and
// positions i32 [tokens], rows of the table. In each head, features i and i + d / 2 form a point, which is
// rotated by the position's angle i, so that scores depend on relative positions. Table and positions may be
// on the host. Throws ShapeError, and DataError for a position outside the table.
Variable rotary(const Variable& x, int64_t heads, const RotaryTable& table, const Tensor& positions);

}  // namespace qkv
