#include "qkv/nn/layer_options.h"

#include <algorithm>

#include "qkv/base/error.h"
#include "qkv/nn/experts.h"

namespace qkv::nn {

MultiheadAttentionOptions LayerOptions::self_attention() const {
  return {.d_model = d_model,
          .heads = heads,
          .key_heads = key_heads,
          .d_k = d_k,
          .d_v = d_v,
          .variant = attention,
          .norm_kind = norm_kind,
          .norm_weight = norm_weight,
          .epsilon = epsilon,
          .dropout = attention_dropout};
}

MultiheadAttentionOptions LayerOptions::cross_attention() const {
  MultiheadAttentionOptions options = self_attention();
  options.variant.positions = {};
  options.variant.window = 0;
  options.variant.clip = 0;
  options.variant.keys_as_values = options.variant.value_norm = false;
  options.variant.value_scale = 1;
  options.variant.latent = {};
  return options;
}

std::shared_ptr<const FeedForward> LayerOptions::feed_forward() const {
  const DenseFeedForwardOptions one{.d_model = d_model,
                                    .d_ff = d_ff,
                                    .activation = activation,
                                    .gated = gated,
                                    .clamp = gate_clamp,
                                    .bias = feed_forward_bias,
                                    .inner_bias = inner_bias,
                                    .dropout = activation_dropout,
                                    .xielu = xielu};
  if (experts.count == 0) return std::make_shared<DenseFeedForward>(one);
  return std::make_shared<Experts>(one, experts);
}

NormOptions LayerOptions::norm_options() const {
  return {
      .features = d_model, .kind = norm_kind, .epsilon = epsilon, .bias = norm_bias, .weight = norm_weight};
}

Residual::Options LayerOptions::residual() const {
  return {.norm = norm_options(),
          .placement = norm,
          .scale = residual_scale,
          .layer_scale = layer_scale,
          .dropout = dropout,
          .drop_path = drop_path};
}

Residual::Options LayerOptions::attention_residual() const {
  Residual::Options options = residual();
  options.normed = attention_norm;
  return options;
}

Residual::Options LayerOptions::feed_forward_residual() const {
  Residual::Options options = residual();
  if (feed_forward_output_norm) options.placement = NormPlacement::both;
  return options;
}

std::vector<LayerOptions> alike(int64_t count, const LayerOptions& layer) {
  if (count < 0) throw UsageError(concat("layers: expected 0 or more, found ", count));
  if (count > kMaxLayers)
    throw UsageError(concat("layers: expected at most ", kMaxLayers, ", found ", count));
  return std::vector<LayerOptions>(static_cast<size_t>(count), layer);
}

const LayerOptions& StackOptions::first() const {
  static const LayerOptions none;
  return layers.empty() ? none : layers.front();
}

const LayerOptions& StackOptions::uniform() const {
  const auto other = std::ranges::find_if(layers, [&](const LayerOptions& one) { return one != first(); });
  if (other == layers.end()) return first();
  throw UsageError(concat("layers: expected the same options in all layers, found others in layer ",
                          other - layers.begin()));
}

void StackOptions::set_dropout(float dropout, float attention_dropout) {
  each([&](LayerOptions& layer) {
    layer.dropout = dropout;
    layer.attention_dropout = attention_dropout;
  });
}

LayerOptions StackOptions::layer_at(int64_t index) const {
  if (!(drop_path >= 0 && drop_path < 1))
    throw UsageError(concat("drop_path: expected a rate in [0, 1), found ", drop_path));
  LayerOptions options = layers.at(static_cast<size_t>(index));
  if (options.drop_path != 0) {
    throw UsageError(
        concat("layer.drop_path: expected 0 in a stack, which has a drop_path, found ", options.drop_path));
  }
  if (options.d_model != d_model()) {
    throw UsageError(concat("layer ", index, ": d_model: expected that of the first layer, ", d_model(),
                            ", found ", options.d_model));
  }
  options.drop_path = drop_path * static_cast<float>(index + 1) / static_cast<float>(layers.size());
  return options;
}

}  // namespace qkv::nn
