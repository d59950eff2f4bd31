#pragma once
// The options of Transformer layers and of stacks of them.

#include <memory>
#include <optional>
#include <vector>

#include "qkv/nn/attention/attention.h"
#include "qkv/nn/expert_options.h"
#include "qkv/nn/feed_forward.h"
#include "qkv/nn/norm.h"

namespace qkv::nn {

// How a layer combines its sublayers: one after the other; or both read the layer's input, each through its
// own norm (GPT-NeoX) or through one (GPT-J, Falcon, Cohere), and both results are added to it.
enum class SublayerOrder { serial, parallel, parallel_one_norm };

// The options of a layer. Layers of a stack may differ in all but d_model.
struct LayerOptions {
  int64_t d_model = 0, heads = 1;
  int64_t key_heads = 0;  // heads of keys and values, a divisor of heads; 0: same as heads
  int64_t d_k = 0, d_v = 0;
  int64_t d_ff = 0;  // inner width of the feed-forward, or of each expert
  Activation activation = Activation::relu;
  bool gated = false;  // gated feed-forward
  GateClamp gate_clamp = {};
  bool xielu = false;  // in place of the activation
  bool feed_forward_bias = true;
  bool inner_bias = true;  // with it: also before the activation, not of the result alone (GTE)
  ExpertOptions experts = {};
  NormPlacement norm = NormPlacement::post;
  NormKind norm_kind = NormKind::layer;
  float epsilon = 1e-5f;
  bool norm_bias = true;                  // of layer norms
  bool norm_weight = true;                // of all norms
  bool attention_norm = true;             // pre-norm layers: whether self-attention has one (ModernBERT)
  bool feed_forward_output_norm = false;  // likewise: the feed-forward's result has one, too (A.X)
  SublayerOrder order = SublayerOrder::serial;  // others: pre-norm layers without cross attention only
  float residual_scale = 1;                     // factor of the sublayers' results (Granite)
  bool layer_scalar = false;                    // the layer's result has a learned factor (Gemma 4)
  bool layer_scale = false;         // the sublayers' results have a learned factor for each feature (CaiT)
  AttentionVariant attention = {};  // of self-attention; cross attention has no positions and no window
  bool reads_memory = true;         // decoder layers only: has cross attention
  float dropout = 0;                // after each sublayer
  float attention_dropout = 0;      // of attention weights
  float activation_dropout = 0;     // inside the feed-forward
  // Probability that a sequence skips a sublayer in training (Residual). Stacks set it by depth: see
  // StackOptions.
  float drop_path = 0;

  // The options of each part of a layer.
  MultiheadAttentionOptions self_attention() const;
  MultiheadAttentionOptions cross_attention() const;
  std::shared_ptr<const FeedForward> feed_forward() const;
  NormOptions norm_options() const;
  Residual::Options residual() const;
  Residual::Options attention_residual() const;     // of self-attention
  Residual::Options feed_forward_residual() const;  // of the feed-forward

  bool operator==(const LayerOptions&) const = default;
};

// The maximum number of layers of a stack.
inline constexpr int64_t kMaxLayers = 1000;

// `count` layers with the same options. Throws UsageError for a count that is negative or above kMaxLayers.
std::vector<LayerOptions> alike(int64_t count, const LayerOptions& layer);

struct StackOptions {
  std::vector<LayerOptions> layers = {};
  bool final_norm = false;  // norm after the last layer, required by pre-norm stacks
  // Stochastic depth (Huang et al. 2016): layer l of L, from 1, has drop_path = l / L * drop_path.
  float drop_path = 0;
  int64_t repeats = 1;  // encoders: how many times the layers run, with the same weights (ALBERT)
  // f32 or bf16: the dtype of activations between and within layers, on devices other than the CPU. A stack
  // reads and returns f32.
  DType activations = DType::f32;

  int64_t size() const { return static_cast<int64_t>(layers.size()); }
  // The first layer's options; those of an empty stack are the defaults.
  const LayerOptions& first() const;
  // The options of all layers. Throws UsageError naming the first layer that differs from the others.
  const LayerOptions& uniform() const;
  int64_t d_model() const { return first().d_model; }
  // Sets options of every layer: each([&](LayerOptions& layer) { layer.dropout = 0.1f; }).
  template <class Set>
  void each(const Set& set) {
    for (LayerOptions& layer : layers) set(layer);
  }
  // Of every layer: LayerOptions::dropout and attention_dropout.
  void set_dropout(float dropout, float attention_dropout);
  // The options of a layer, counted from 0, with its drop_path. Throws UsageError for a rate outside [0, 1),
  // and for a layer with a drop_path of its own or another d_model than the first.
  LayerOptions layer_at(int64_t index) const;

  bool operator==(const StackOptions&) const = default;
};

}  // namespace qkv::nn
