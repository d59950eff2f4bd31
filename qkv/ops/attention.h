#pragma once
// Scaled dot-product attention (Vaswani et al. 2017, section 3.2.1).

#include <optional>

#include "qkv/kernels/dropout.h"
#include "qkv/ops/tape.h"
#include "qkv/tensor/ragged.h"

namespace qkv {

struct AttentionOptions {
  // Query i attends to key j where j <= i + (keys - queries): aligned to the last key, as a KV cache needs.
  bool causal = false;
  // u8 [batch | 1, heads | 1, queries | 1, keys], nonzero = may be attended (the papers' mask == 0 ->
  // -infinity). For ragged batches the last two extents are those of the longest sequences.
  Tensor keep = {};
  // f32, shaped as `keep`; added to the scaled scores. -infinity forbids.
  Variable bias = {};
  // 1 / sqrt(d_k) where not given.
  std::optional<float> scale = {};
  // Of the weights.
  kernels::Dropout dropout = {};
  // Sequences of a ragged batch; without them rank-3 inputs are one sequence.
  std::optional<Offsets> query_offsets = {}, key_offsets = {};
  bool return_weights = false;
};

struct AttentionResult {
  Variable output;
  // Where asked for: one tensor [heads, queries, keys] a sequence, as the softmax gave them, before dropout.
  std::vector<Tensor> weights;
};

// softmax(Q K^T / sqrt(d_k)) V, by head. Dense: Q [batch, queries, heads, d_k], K [batch, keys, heads, d_k],
// V [batch, keys, heads, d_v]
// -> [batch, queries, heads, d_v]. Ragged: the same without the batch axis, rows laid end to end ([tokens,
// heads, d]). What may attend is where causal, keep and bias all allow it; a row that may attend to nothing
// gives zeros. Throws ShapeError.
AttentionResult scaled_dot_product_attention(const Variable& query, const Variable& key,
                                             const Variable& value, const AttentionOptions& options = {});

// The same on matrices [tokens, heads * d], which may be columns of a fused projection. d_k and d_v follow
// from the widths.
AttentionResult multihead_attention(const Variable& query, const Variable& key, const Variable& value,
                                    int64_t heads, const AttentionOptions& options);

}  // namespace qkv
