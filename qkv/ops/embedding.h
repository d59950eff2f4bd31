#pragma once
// Rows of a table by number.

#include "qkv/ops/dropout.h"
#include "qkv/ops/tape.h"
#include "qkv/ops/weight.h"

namespace qkv {

struct EmbeddingOptions {
  float factor = 1;      // sqrt(d_model) in the paper, section 3.4
  Tensor position = {};  // i32 [tokens]: each token's row of `positions`; used where `positions` is given
  Dropout dropout = {};
};

// dropout(factor * table[ids] + positions[position]): table [vocabulary, features], ids i32 [tokens],
// positions [max positions, features] (sinusoids, or learned) or undefined -> [tokens, features]. Throws
// DataError for an id outside the table, or a position outside `positions`, naming it. ids and position may
// lie on the host.
Variable embedding(const Weight& table, const Tensor& ids, const Variable& positions,
                   const EmbeddingOptions& options);

}  // namespace qkv
