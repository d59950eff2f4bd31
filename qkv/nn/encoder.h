#pragma once
// The encoder (Vaswani et al. 2017, section 3.1).

#include <optional>
#include <vector>

#include "qkv/nn/attention.h"
#include "qkv/nn/feed_forward.h"
#include "qkv/nn/norm.h"
#include "qkv/nn/relative_positions.h"

namespace qkv::nn {

// The options of a layer, identical for all layers of a stack but for drop_path.
struct LayerOptions {
  int64_t d_model = 0, heads = 1;
  int64_t key_heads = 0;  // heads of keys and values, a divisor of heads; 0: same as heads
  int64_t d_k = 0, d_v = 0, d_ff = 0;
  Activation activation = Activation::relu;
  bool gated = false;  // gated feed-forward
  NormPlacement norm = NormPlacement::post;
  NormKind norm_kind = NormKind::layer;
  float epsilon = 1e-5f;
  bool attention_bias = true, feed_forward_bias = true;
  PositionOptions positions = {};             // positions that act in self-attention
  std::optional<float> attention_scale = {};  // factor of the scores; nothing: 1 / sqrt(d_k)
  float attention_softcap = 0;                // of the scaled scores; 0: off
  // Causal self-attention only: sliding window, the number of positions that a query attends to, its own
  // included; 0: all.
  int64_t window = 0;
  bool reads_memory = true;      // decoder layers only: has cross attention
  float dropout = 0;             // after each sublayer
  float attention_dropout = 0;   // of attention weights
  float activation_dropout = 0;  // inside the feed-forward
  // Probability that a sequence skips a sublayer in training (Residual). Stacks set it by depth: see
  // StackOptions.
  float drop_path = 0;

  // The options of each part of a layer.
  MultiheadAttentionOptions self_attention() const;
  MultiheadAttentionOptions cross_attention() const;
  FeedForwardOptions feed_forward() const;
  NormOptions norm_options() const;
  Residual::Options residual() const;
};

class EncoderLayer {
 public:
  explicit EncoderLayer(const LayerOptions& options);

  // x [tokens, d_model] -> [tokens, d_model].
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
  bool final_norm = false;  // norm after the last layer, required by pre-norm stacks
  // Stochastic depth (Huang et al. 2016): layer l of L, from 1, has layer.drop_path = l / L * drop_path.
  float drop_path = 0;

  // The options of a layer, counted from 0. Throws UsageError for a rate outside [0, 1), and if
  // layer.drop_path is not 0.
  LayerOptions layer_at(int64_t index) const;
};

// The relative positions of a stack's self-attention, if it uses them.
std::optional<RelativePositions> relative_positions(const LayerOptions& layer, Direction direction);

class Encoder {
 public:
  explicit Encoder(const StackOptions& options);

  Variable operator()(const Variable& x, const Offsets& offsets, ForwardContext& context,
                      const AttentionMask& mask = {}) const;
  // "relative_positions.weight" if positions are relative, "layers.0.fc1.weight", "layer_norm.weight".
  void visit(const ParameterVisitor& visitor) const;

 private:
  std::optional<RelativePositions> relative_positions_;
  std::vector<EncoderLayer> layers_;
  std::optional<Norm> layer_norm_;
};

}  // namespace qkv::nn
