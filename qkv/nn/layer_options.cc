#include "qkv/nn/encoder.h"

namespace qkv::nn {

MultiheadAttentionOptions LayerOptions::self_attention() const {
  MultiheadAttentionOptions options = cross_attention();
  options.positions = positions;
  options.window = window;
  return options;
}

MultiheadAttentionOptions LayerOptions::cross_attention() const {
  return {.d_model = d_model,
          .heads = heads,
          .key_heads = key_heads,
          .d_k = d_k,
          .d_v = d_v,
          .bias = attention_bias,
          .scale = attention_scale,
          .softcap = attention_softcap,
          .dropout = attention_dropout};
}

FeedForwardOptions LayerOptions::feed_forward() const {
  return {.d_model = d_model,
          .d_ff = d_ff,
          .activation = activation,
          .gated = gated,
          .bias = feed_forward_bias,
          .dropout = activation_dropout};
}

NormOptions LayerOptions::norm_options() const {
  return {.features = d_model, .kind = norm_kind, .epsilon = epsilon};
}

Residual::Options LayerOptions::residual() const {
  return {.norm = norm_options(), .placement = norm, .dropout = dropout};
}

}  // namespace qkv::nn
