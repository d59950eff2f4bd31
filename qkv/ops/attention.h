#pragma once
// Scaled dot-product attention (Vaswani et al. 2017, section 3.2.1).

#include <optional>
#include <vector>

#include "qkv/kernels/dropout.h"
#include "qkv/kernels/kinds.h"
#include "qkv/ops/tape.h"
#include "qkv/tensor/ragged.h"

namespace qkv {

using kernels::Alignment;

struct AttentionOptions {
  // A query attends only to keys at or before its own position.
  bool causal = false;
  // The causal mask: query i attends to key j if j <= i + keys - queries (last_key), or if j <= i
  // (first_key). Also defines distances for ALiBi and the relative bias.
  Alignment alignment = Alignment::last_key;
  // Sliding window (Beltagy et al. 2020, section 3.1): a query attends to keys less than `window` positions
  // away, on both sides or, with causal attention, before it. 0: off.
  int64_t window = 0;
  // Sums over few queries of a sequence have another order than over many. If set, the order for many is
  // always used, so that a row's bits do not depend on the number of queries in the call.
  bool fixed_order = false;
  // f32, or bf16: the device may round queries, keys, values and weights to bf16 within products, if its
  // instructions for bf16 are faster. The CPU and the reference device do not.
  DType operands = DType::f32;
  // u8 [batch | 1, heads | 1, queries | 1, keys], nonzero: may be attended to (zero: -infinity in the
  // papers). For ragged batches the last two extents are those of the longest sequences.
  Tensor keep = {};
  // f32, shaped like `keep`; added to the scaled scores. -infinity masks.
  Variable bias = {};
  // f32 [heads]: the score of a key at distance n is reduced by slope * n (ALiBi, Press et al. 2022).
  Tensor alibi_slopes = {};
  // f32 [heads, 2 n - 1]: element [head, n - 1 + j] is added to the score of a key j positions after the
  // query (before it: j < 0) (Raffel et al. 2020, section 2.1). n must be at least the length of the longest
  // sequence.
  Variable relative_bias = {};
  // f32 [heads]: attention sinks, a learned score of each head that takes part in every row's softmax and
  // that no key and value belong to. A row's weights then sum to less than 1 (Xiao et al. 2024; gpt-oss).
  Variable sinks = {};
  // Default: 1 / sqrt(d_k).
  std::optional<float> scale = {};
  // 0: off. Otherwise a scaled score s becomes softcap * tanh(s / softcap), before
  // biases are added (Gemma 2).
  float softcap = 0;
  // Of the attention weights.
  kernels::Dropout dropout = {};
  // The sequences of a ragged batch; by default, rank-3 inputs are one sequence. Invalid for dense inputs.
  std::optional<Offsets> query_offsets = {}, key_offsets = {};
  // multihead_attention only: heads of keys and values, a divisor of the query heads (grouped-query
  // attention, Ainslie et al. 2023): query head h attends to key head h / (heads / key_heads). 0: same as
  // heads.
  int64_t key_heads = 0;
  bool return_weights = false;
  bool return_scores = false;
  // The number of largest weights per row to return; 0: none.
  int64_t return_top = 0;
};

struct AttentionResult {
  Variable output;
  // If requested: one tensor [heads, queries, keys] per sequence, the softmax output before dropout.
  std::vector<Tensor> weights;
  // If requested, likewise: the softmax input, biases included; -infinity for masked keys.
  std::vector<Tensor> scores;
  // [heads, query tokens, return_top], f32 and i32: each row's largest weights in descending order (ties by
  // earlier key), and their keys, as indices within the sequence. Missing entries are 0 and -1.
  Tensor top_weights, top_keys;
};

// softmax(Q K^T / sqrt(d_k)) V for each head.
// Dense: Q [batch, queries, heads, d_k], K [batch, keys, heads, d_k], V [batch, keys, heads, d_v] -> [batch,
// queries, heads, d_v]; keys and values may have fewer heads, a divisor of the query heads.
// Ragged: the same without the batch axis, sequences concatenated: [tokens, heads, d].
// Inputs are all f32 or all bf16. bf16 is computed in f32 and rounded to bf16; weights and gradients are f32.
// A query attends to the keys that causal, keep and bias all allow; with no such key the output is zero.
// A NaN or an infinity never leaves its sequence. A value that a query may not attend to is multiplied by the
// weight 0, so NaN in it may make that query's row NaN, as in PyTorch; a key that `keep` or `causal` hides
// may hold anything in the forward pass. Gradients are defined for finite inputs only. Throws ShapeError, and
// UsageError for options that contradict the inputs.
AttentionResult scaled_dot_product_attention(const Variable& query, const Variable& key,
                                             const Variable& value, const AttentionOptions& options = {});

// Likewise on matrices [tokens, heads * d], which may be columns of a fused projection. d_k and d_v follow
// from the widths; keys and values have options.key_heads heads.
AttentionResult multihead_attention(const Variable& query, const Variable& key, const Variable& value,
                                    int64_t heads, const AttentionOptions& options);

}  // namespace qkv
