#pragma once

#include "qkv/ops/tape.h"

namespace qkv {

// The angles of rotary positions: cosines and sines f32 [positions, d / 2] for heads of d features.
struct RotaryTable {
  Tensor cosines, sines;
};

// Rotary positions (Su et al. 2021): x [tokens, heads * d], maybe columns of a wider matrix, and positions
// i32 [tokens], rows of the table. In each head, features i and i + d / 2 are the coordinates of a point,
// which is turned by the position's angle i. The scores of queries and keys then depend on how far they are
// apart. Table and positions may lie on the host. Throws ShapeError, and DataError for a position outside the
// table.
Variable rotary(const Variable& x, int64_t heads, const RotaryTable& table, const Tensor& positions);

}  // namespace qkv
