#pragma once
// Scaled dot-product attention (Vaswani et al. 2017, section 3.2.1).

#include <optional>
#include <vector>

#include "qkv/kernels/alignment.h"
#include "qkv/kernels/dropout.h"
#include "qkv/ops/tape.h"
#include "qkv/tensor/ragged.h"

namespace qkv {

using kernels::Alignment;

struct AttentionOptions {
  // A query attends to keys at its own position and before it.
  bool causal = false;
  // Causal: query i attends to key j where j <= i + keys - queries (last_key), or where j <= i (first_key).
  // ALiBi and the relative bias go by it too.
  Alignment alignment = Alignment::last_key;
  // Of causal attention: query i attends to the last `window` of the keys that causality allows it alone, its
  // own included (Beltagy et al. 2020, section 3.1). 0: to all of them.
  int64_t window = 0;
  // Few queries of a sequence are computed in another order of sums than many. Set, all are computed as many
  // are, so that a row's bits do not depend on how many queries of its sequence a call has.
  bool fixed_order = false;
  // u8 [batch | 1, heads | 1, queries | 1, keys], nonzero = may be attended (the papers' mask == 0 ->
  // -infinity). For ragged batches the last two extents are those of the longest sequences.
  Tensor keep = {};
  // f32, shaped as `keep`; added to the scaled scores. -infinity forbids.
  Variable bias = {};
  // f32 [heads]: the score of a key n positions away falls by slope * n (Press et al. 2022, ALiBi).
  Tensor alibi_slopes = {};
  // f32 [heads, 2 n - 1]: added to the score of a key that lies j positions after the query (before it: j <
  // 0) is element [head, n - 1 + j] (Raffel et al. 2020, section 2.1). n is at least as many positions as the
  // longest sequence has.
  Variable relative_bias = {};
  // 1 / sqrt(d_k) where not given.
  std::optional<float> scale = {};
  // 0: none. Else a scaled score s becomes softcap * tanh(s / softcap), before biases are added (Gemma 2).
  float softcap = 0;
  // Of the weights.
  kernels::Dropout dropout = {};
  // Sequences of a ragged batch; without them rank-3 inputs are one sequence. Not for dense inputs.
  std::optional<Offsets> query_offsets = {}, key_offsets = {};
  // Of multihead_attention: heads of keys and values, a divisor of the queries' (grouped-query attention,
  // Ainslie et al. 2023): query head h attends to key head h / (heads / key_heads). 0: as many.
  int64_t key_heads = 0;
  bool return_weights = false;
  bool return_scores = false;
  // Weights and scores of these only, in this order: heads, and queries counted within their sequence (those
  // that a sequence does not have are left out). Empty: all.
  std::vector<int64_t> weight_heads = {}, weight_queries = {};
  bool return_entropy = false;
  // The number of largest weights of each row to return; 0: none.
  int64_t return_top = 0;
};

struct AttentionResult {
  Variable output;
  // Where asked for: one tensor [heads, queries, keys] a sequence, as the softmax gave them, before dropout.
  std::vector<Tensor> weights;
  // Where asked for, likewise: the scores that the softmax is taken of, biases included; -infinity where a
  // query may not attend.
  std::vector<Tensor> scores;
  // [heads, query tokens], of each row's weights: -sum_j p_j log(p_j), in nats.
  Tensor entropy;
  // [heads, query tokens, return_top], f32 and i32: each row's largest weights, the largest first and of
  // equals the earlier key, and their keys, counted within the sequence. 0 and -1 where a row has fewer.
  Tensor top_weights, top_keys;
};

// softmax(Q K^T / sqrt(d_k)) V, by head. Dense: Q [batch, queries, heads, d_k], K [batch, keys, heads, d_k],
// V [batch, keys, heads, d_v] -> [batch, queries, heads, d_v]; keys and values may have fewer heads, a
// divisor of the queries'. Ragged: the same without the batch axis, rows laid end to end ([tokens, heads,
// d]). All f32, or all bf16: then computed in f32, and the output is the nearest bf16; weights and gradients
// are f32. A query attends to the keys that causal, keep and bias all allow; one that may attend to nothing
// gives zeros. The value of a key that is masked has a weight of 0 and must be finite: 0 times NaN is NaN.
// Throws ShapeError, and UsageError for options that contradict the inputs.
AttentionResult scaled_dot_product_attention(const Variable& query, const Variable& key,
                                             const Variable& value, const AttentionOptions& options = {});

// The same on matrices [tokens, heads * d], which may be columns of a fused projection. d_k and d_v follow
// from the widths; keys and values have options.key_heads heads.
AttentionResult multihead_attention(const Variable& query, const Variable& key, const Variable& value,
                                    int64_t heads, const AttentionOptions& options);

}  // namespace qkv
