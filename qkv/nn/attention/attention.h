#pragma once
// Multi-head attention (Vaswani et al. 2017, section 3.2.2).

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "qkv/nn/attention/cache.h"
#include "qkv/nn/forward_context.h"
#include "qkv/nn/norm.h"
#include "qkv/nn/parameter.h"
#include "qkv/nn/positions.h"
#include "qkv/ops/attention.h"
#include "qkv/ops/linear.h"

namespace qkv::nn {

class LatentProjections;  // latent_attention.h

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

// Vectors of distances (PositionKind::disentangled), [2 n - 1, d_model]: row r of of_keys is that of a key
// r - (n - 1) positions after the query, row r of of_queries that of one as far before it.
struct DistanceRows {
  Variable of_keys = {}, of_queries = {};
};

// The keys that a query may attend to (all conditions must hold), and biases of the scores.
struct AttentionMask {
  bool causal = false;
  Alignment alignment = Alignment::last_key;  // as in AttentionOptions
  Tensor keep = {};                           // as in AttentionOptions
  Variable bias = {};                         // likewise
  Variable relative_bias = {};                // likewise, [heads, 2 n - 1]
  DistanceRows distances = {};                // self-attention without `keep` and `bias` only
};

// MultiHead(Q, K, V) = Concat(head_1, ..., head_h) W^O, head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V).
class MultiheadAttention {
 public:
  // Throws the errors of completed().
  explicit MultiheadAttention(const MultiheadAttentionOptions& options);

  // Self-attention: x [tokens, d_model] -> [tokens, d_model].
  Variable self(const Variable& x, const Offsets& offsets, const AttentionMask& mask,
                ForwardContext& context) const;
  // Cross attention: queries from x [tokens, d_model], keys and values from other rows, both [memory tokens,
  // d_model]. Sequence i attends to sequence i.
  Variable cross(const Variable& x, const Offsets& offsets, const Variable& keys, const Variable& values,
                 const Offsets& memory_offsets, const AttentionMask& mask, ForwardContext& context) const;

  // Prefill: processes the next positions of each row of a cache, x [tokens, d_model] -> [tokens, d_model];
  // row i has positions from offsets.begin(i) on. Causal, and a position's bits do not depend on how many are
  // read at once; or else the positions that are read together attend to each other (an image's).
  // relative_bias: as in self_step().
  Tensor self_read(const Tensor& x, const Offsets& offsets, KeyValueCache& cache,
                   const Tensor& relative_bias = {}, bool causal = true) const;
  // One decoding step for each row of a cache: x [rows, d_model] -> [rows, d_model]. relative_bias: [heads, 2
  // n - 1] with n at least the length of the longest row.
  Tensor self_step(const Tensor& x, KeyValueCache& cache, const Tensor& relative_bias = {}) const;
  // Keys and values of encoded sentences, memory [memory tokens, d_model], stored as f32 or bf16.
  MemoryKeyValues encode_memory(const Tensor& memory, const Offsets& offsets, DType dtype = DType::f32) const;
  // Cross attention of one step: x [rows, d_model], in which rows hypothesis_offsets[i] to
  // hypothesis_offsets[i + 1] attend to the memory of sentence i. weights, if given: each row's weights,
  // averaged over the heads.
  Tensor cross_step(const Tensor& x, const Offsets& hypothesis_offsets, const MemoryKeyValues& memory,
                    std::vector<std::vector<float>>* weights = nullptr) const;

  void visit(const ParameterVisitor& visitor) const;
  const MultiheadAttentionOptions& options() const { return options_; }  // with all sizes filled in

 private:
  struct Heads {
    Variable query, key, value;
  };
  // Projections of the same rows, with norms; positions i32 [tokens], used for rotary positions.
  Heads project(const Variable& x, const std::function<Tensor()>& positions, WeightLayout layout) const;
  Variable normalised(const Variable& x, int64_t heads, const std::optional<Norm>& norm) const;
  const Parameter& own_values() const { return v_weight_.defined() ? v_weight_ : k_weight_; }
  // This attention's description, without masks and sequences; cross attention has no positions and no
  // window.
  AttentionOptions description(bool self) const;
  // Without the output projection.
  AttentionResult attended(const Heads& heads, const AttentionMask& mask, const ForwardContext& context,
                           AttentionOptions options) const;
  Variable attend(const Heads& heads, const AttentionMask& mask, ForwardContext& context,
                  AttentionOptions options) const;
  Variable attend_by_distances(const Heads& heads, const Offsets& offsets, const AttentionMask& mask,
                               ForwardContext& context) const;

  MultiheadAttentionOptions options_;
  Tensor alibi_slopes_;                                    // undefined without ALiBi
  std::shared_ptr<const LatentProjections> latent_;        // in place of all projections but out_
  Parameter q_weight_, k_weight_, v_weight_, out_weight_;  // no v_weight_ if keys are values
  Parameter q_bias_, k_bias_, v_bias_, out_bias_;
  Parameter sinks_;
  std::optional<Norm> q_norm_, k_norm_, v_norm_;
  // The weights grouped by use: projections of the same rows are one product.
  LinearWeights out_;
  std::optional<LinearWeights> qkv_, q_, kv_, k_, v_;  // none of latent attention
};

}  // namespace qkv::nn
