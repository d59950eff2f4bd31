#pragma once
// Pools the tokens of each sequence by attention (Lee et al. 2019, "Set Transformer", section 3.2; the head
// of Zhai et al. 2022): one learned query attends to them, and a feed-forward follows.

#include <memory>

#include "qkv/nn/layer_options.h"

namespace qkv::models {

class AttentionPooler {
 public:
  // Of the layer's width, heads, feed-forward and norm.
  explicit AttentionPooler(const nn::LayerOptions& layer);

  // hidden: [tokens, d_model] -> [sequences, d_model].
  Variable operator()(const Variable& hidden, const Offsets& offsets, nn::ForwardContext& context) const;
  // "query", "attn.q_proj.weight", "layer_norm.weight", "fc1.weight".
  void visit(const nn::ParameterVisitor& visitor) const;

 private:
  nn::Parameter query_;  // [1, d_model]
  nn::MultiheadAttention attn_;
  nn::Norm norm_;
  std::shared_ptr<const nn::FeedForward> feed_forward_;
};

}  // namespace qkv::models
