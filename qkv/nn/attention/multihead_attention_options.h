#pragma once
// The options of multi-head attention.

#include <cstdint>
#include <optional>

#include "qkv/nn/norm.h"
#include "qkv/nn/positions.h"

namespace qkv::nn {

// The projections that have a bias.
struct ProjectionBiases {
  bool query = true, key = true, value = true, output = true;

  static constexpr ProjectionBiases all(bool wanted) { return {wanted, wanted, wanted, wanted}; }
  bool operator==(const ProjectionBiases&) const = default;
};

// Norms of queries and keys, before they are rotated: none, of each head's d_k features (Qwen 3, Gemma 3), or
// of those of all heads together (OLMo 2). rotated_head: of each head's features, after they are rotated
// (Hunyuan). plain_head: of each head's features, without weights (Llama 4). each_head: of each head's
// features, with weights of its own and no bias (Command R+).
enum class QueryKeyNorm { none, head, all_heads, rotated_head, plain_head, each_head };

// Latent attention: the features of the rows from which queries, keys and values are projected.
struct LatentOptions {
  int64_t rank = 0;        // of keys and values; 0: off
  int64_t query_rank = 0;  // of queries; 0: they are projected from the input

  bool operator==(const LatentOptions&) const = default;
};

// What an attention computes, beside its sizes. Layers of one model may differ in it.
struct AttentionVariant {
  ProjectionBiases bias = {};
  // Self-attention only: rotary positions rotate queries and keys, ALiBi biases scores. Relative biases are
  // passed with each run, because the layers of a stack share them (RelativePositions).
  PositionOptions positions = {};
  std::optional<float> scale = {};  // factor of the scores; nothing: 1 / sqrt(d_k)
  float softcap = 0;                // of the scaled scores (AttentionOptions::softcap); 0: off
  // Self-attention only: sliding window (AttentionOptions::window); 0: off.
  int64_t window = 0;
  QueryKeyNorm query_key_norm = QueryKeyNorm::none;
  float clip = 0;      // self-attention only: queries, keys and values are cut to [-clip, clip]; 0: off
  bool sinks = false;  // a learned score of each head without key and value (AttentionOptions::sinks)
  // Self-attention only (Gemma 4): values are the projected keys, before their norm and positions, and values
  // have an RMS norm of each head's features, without weights.
  bool keys_as_values = false, value_norm = false;
  float value_scale = 1;  // self-attention only: factor of the values (MiMo)
  // Self-attention only: low-rank projections (DeepSeek-V2), with rotary positions, whose rotary_features are
  // the part of each head that has positions, and as many heads of keys as of queries. The cache holds the
  // keys and values of all heads. The biases of queries and keys are those of the projections to the latent
  // rows.
  LatentOptions latent = {};

  bool operator==(const AttentionVariant&) const = default;
};

struct MultiheadAttentionOptions {
  int64_t d_model = 0;
  int64_t heads = 1;
  int64_t key_heads = 0;  // heads of keys and values, a divisor of heads; 0: same as heads
  int64_t d_k = 0;        // per head; 0: d_model / heads
  int64_t d_v = 0;        // per head; 0: d_model / heads
  AttentionVariant variant = {};
  NormKind norm_kind = NormKind::rms;  // of queries and keys
  bool norm_weight = true;             // of their norms
  float epsilon = 1e-6f;               // likewise, and of values
  float dropout = 0;                   // of the attention weights
};

// Fills in sizes that follow from others. Throws UsageError if heads do not divide d_model and d_k or d_v is
// 0, if key_heads do not divide heads, and for a number of rotated features that is odd or above d_k.
MultiheadAttentionOptions completed(MultiheadAttentionOptions options);

}  // namespace qkv::nn
