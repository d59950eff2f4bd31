#pragma once
// The part of attention's scores that depends on contents and distances (He et al. 2021, "DeBERTa", equation
// 4).

#include <cstdint>

#include "qkv/ops/tape.h"
#include "qkv/tensor/ragged.h"

namespace qkv {

// f32 [sequences, heads, l, l], where l is the length of the longest sequence. For tokens i and j of a
// sequence s: y[s, h, i, j] = scale (q_i a_(j - i) + k_j b_(i - j)), and 0 beyond its length. q_i and k_j are
// rows of head h of query and key [tokens, heads * d], possibly columns of wider matrices, a_m and b_m rows m
// + l - 1 of head h of `of_keys` and `of_queries` [2 l - 1, heads * d]. All f32. Throws ShapeError for
// others.
Variable distance_scores(const Variable& query, const Variable& key, const Variable& of_keys,
                         const Variable& of_queries, const Offsets& offsets, int64_t heads, float scale);

}  // namespace qkv
