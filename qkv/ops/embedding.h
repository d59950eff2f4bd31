#pragma once
// Embedding: table look-up.

#include "qkv/ops/dropout.h"
#include "qkv/ops/tape.h"
#include "qkv/ops/weight.h"

namespace qkv {

struct EmbeddingOptions {
  float factor = 1;      // of the table rows; sqrt(d_model) in the paper, section 3.4
  Tensor position = {};  // i32 or i64 [tokens]: each token's row of `positions`, if that is given
  Dropout dropout = {};
};

// dropout(factor * table[ids] + positions[position]): table [vocabulary, features], ids i32 or i64 [tokens],
// positions [max positions, features] (sinusoids, or learned) or undefined -> [tokens, features]. Throws
// DataError naming an id outside the table or a position outside `positions`. ids and position may be on the
// host.
Variable embedding(const Weight& table, const Tensor& ids, const Variable& positions,
                   const EmbeddingOptions& options);

}  // namespace qkv
