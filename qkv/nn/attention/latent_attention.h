#pragma once
// The projections of multi-head latent attention (DeepSeek-AI 2024, "DeepSeek-V2", section 2.1).

#include <functional>
#include <optional>

#include "qkv/nn/attention/attention.h"

namespace qkv::nn {

struct LatentSizes {
  LatentOptions latent = {};
  int64_t d_model = 0, heads = 1;
  int64_t rotated = 0;       // the first features of each head's query and key: those with positions
  int64_t d_k = 0, d_v = 0;  // per head; d_k includes `rotated`
  bool query_bias = false, key_bias = false;  // of the projections to the latent rows
};

// c = norm(W_c x); a head's key is [rotate(W_r x), W_k c], in which W_r x is the same for all heads; its
// value is W_v c; its query is [rotate(W_qr q), W_q q], with q = norm(W_a x), or x. The norms are RMS norms.
class LatentProjections {
 public:
  struct Heads {
    Variable query, key, value;  // [tokens, heads d_k], the same, [tokens, heads d_v]
  };
  // Applies positions to rows [tokens, heads * rotated].
  using Rotate = std::function<Variable(const Variable& rows, int64_t heads)>;

  // Throws UsageError for ranks below 1 (query_rank: 0), an odd or missing rotated part, and a d_k that has
  // no other.
  explicit LatentProjections(const LatentSizes& sizes);
  Heads operator()(const Variable& x, const Rotate& rotate, WeightLayout layout) const;
  // "q_a_proj.weight", "q_a_norm.weight", "q_proj.weight", "q_rope_proj.weight", "kv_a_proj.weight",
  // "k_rope_proj.weight", "kv_a_norm.weight", "k_proj.weight", "v_proj.weight"; ".bias" of those from x.
  void visit(const ParameterVisitor& visitor) const;

 private:
  LatentSizes sizes_;
  Parameter q_a_weight_, q_a_bias_;  // undefined without query_rank
  std::optional<Norm> q_a_norm_;
  Parameter q_weight_, q_rope_weight_, kv_a_weight_, kv_a_bias_, k_rope_weight_, k_rope_bias_;
  Norm kv_a_norm_;
  Parameter k_weight_, v_weight_;
  // Grouped by the rows that they read: the input, the queries', and the keys' and values'.
  std::optional<LinearWeights> inputs_, queries_, keys_values_;
};

}  // namespace qkv::nn
