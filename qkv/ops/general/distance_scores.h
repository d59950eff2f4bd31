#pragma once
// The part of attention's scores that depends on contents and distances (He et al. 2021, "DeBERTa", equation
// 4).

#include <cstdint>

#include "qkv/ops/tape.h"

namespace qkv {

// Of a sequence of n tokens: y[0, h, i, j] = scale (q_i a_(j - i) + k_j b_(i - j)), f32 [1, heads, n, n],
// where q_i and k_j are rows of head h of query and key [n, heads * d], possibly columns of wider matrices,
// and a_m and b_m are rows m + n - 1 of head h of `of_keys` and `of_queries` [2 n - 1, heads * d]. All f32.
// Throws ShapeError for others.
Variable distance_scores(const Variable& query, const Variable& key, const Variable& of_keys,
                         const Variable& of_queries, int64_t heads, float scale);

}  // namespace qkv
