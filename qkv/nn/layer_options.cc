#include "qkv/nn/encoder.h"

namespace qkv::nn {

MultiheadAttentionOptions LayerOptions::attention() const {
  return {
      .d_model = d_model, .heads = heads, .d_k = d_k, .d_v = d_v, .bias = bias, .dropout = attention_dropout};
}

FeedForwardOptions LayerOptions::feed_forward() const {
  return {.d_model = d_model,
          .d_ff = d_ff,
          .activation = activation,
          .bias = bias,
          .dropout = activation_dropout};
}

Residual::Options LayerOptions::residual() const {
  return {.features = d_model, .placement = norm, .dropout = dropout, .epsilon = epsilon};
}

}  // namespace qkv::nn
