#pragma once
// The encoder (Vaswani et al. 2017, section 3.1).

#include <optional>
#include <vector>

#include "qkv/nn/attention.h"
#include "qkv/nn/feed_forward.h"
#include "qkv/nn/norm.h"
#include "qkv/nn/relative_positions.h"

namespace qkv::nn {

// The options of one layer, and of a stack of equal ones.
struct LayerOptions {
  int64_t d_model = 0, heads = 1;
  int64_t key_heads = 0;  // of keys and values, a divisor of heads; 0: as many
  int64_t d_k = 0, d_v = 0, d_ff = 0;
  Activation activation = Activation::relu;
  bool gated = false;  // the feed-forward
  NormPlacement norm = NormPlacement::post;
  NormKind norm_kind = NormKind::layer;
  float epsilon = 1e-5f;
  bool attention_bias = true, feed_forward_bias = true;
  PositionOptions positions = {};             // those that self-attention knows of
  std::optional<float> attention_scale = {};  // of the scores; nothing: 1 / sqrt(d_k)
  float attention_softcap = 0;                // of the scaled scores; 0: none
  // Of causal self-attention: the positions that a query sees, its own and those before it; 0: all.
  int64_t window = 0;
  bool reads_memory = true;      // of a decoder's layer: attends to the encoder's output in its middle
  float dropout = 0;             // after each sublayer
  float attention_dropout = 0;   // of attention weights
  float activation_dropout = 0;  // inside the feed-forward

  // What each part of a layer gets of these.
  MultiheadAttentionOptions self_attention() const;
  MultiheadAttentionOptions cross_attention() const;
  FeedForwardOptions feed_forward() const;
  NormOptions norm_options() const;
  Residual::Options residual() const;
};

class EncoderLayer {
 public:
  explicit EncoderLayer(const LayerOptions& options);

  // x [tokens, d_model] -> the same.
  Variable operator()(const Variable& x, const Offsets& offsets, const AttentionMask& mask,
                      ForwardContext& context) const;
  void visit(const ParameterVisitor& visitor) const;

 private:
  MultiheadAttention self_attn_;
  Residual self_attn_residual_;
  FeedForward feed_forward_;
  Residual feed_forward_residual_;
};

struct StackOptions {
  int64_t layers = 6;
  LayerOptions layer = {};
  bool final_norm = false;  // a norm after the last layer, as pre-norm stacks need
};

// The relative positions of a stack's self-attention, if it has them.
std::optional<RelativePositions> relative_positions(const LayerOptions& layer, Direction direction);

class Encoder {
 public:
  explicit Encoder(const StackOptions& options);

  Variable operator()(const Variable& x, const Offsets& offsets, ForwardContext& context,
                      const AttentionMask& mask = {}) const;
  // "relative_positions.weight" where positions are relative, "layers.0.fc1.weight", "layer_norm.weight".
  void visit(const ParameterVisitor& visitor) const;

 private:
  std::optional<RelativePositions> relative_positions_;
  std::vector<EncoderLayer> layers_;
  std::optional<Norm> layer_norm_;
};

}  // namespace qkv::nn
