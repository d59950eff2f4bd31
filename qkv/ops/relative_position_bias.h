#pragma once

#include "qkv/ops/tape.h"

namespace qkv {

// Expands a learned table into attention's relative_bias (Raffel et al. 2020, section 2.1): table [buckets,
// heads], bucket_of i32 [distances] -> [heads, distances], whose element [h, j] is table[bucket_of[j], h].
// Throws ShapeError.
Variable relative_position_bias(const Variable& table, const Tensor& bucket_of);

}  // namespace qkv
