#include "qkv/base/error.h"
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
  return {.norm = norm_options(), .placement = norm, .dropout = dropout, .drop_path = drop_path};
}

LayerOptions StackOptions::layer_at(int64_t index) const {
  if (!(drop_path >= 0 && drop_path < 1))
    throw UsageError(concat("drop_path: expected a rate in [0, 1), found ", drop_path));
  if (layer.drop_path != 0) {
    throw UsageError(
        concat("layer.drop_path: expected 0 in a stack, which has a drop_path, found ", layer.drop_path));
  }
  LayerOptions options = layer;
  options.drop_path = drop_path * static_cast<float>(index + 1) / static_cast<float>(layers);
  return options;
}

}  // namespace qkv::nn
