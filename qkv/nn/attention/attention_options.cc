// Sizes and limits of the options.

#include <cmath>
#include <utility>

#include "qkv/base/error.h"
#include "qkv/nn/attention/attention.h"

namespace qkv::nn {

MultiheadAttentionOptions completed(MultiheadAttentionOptions options) {
  if (options.d_model < 1 || options.heads < 1) {
    throw UsageError(concat("attention: d_model and heads must be at least 1, found ", options.d_model,
                            " and ", options.heads));
  }
  constexpr int64_t kMaxSize = INT32_MAX;  // products of two fit 64 bits
  const std::pair<const char*, int64_t> sizes[] = {{"d_model", options.d_model},
                                                   {"heads", options.heads},
                                                   {"key_heads", options.key_heads},
                                                   {"d_k", options.d_k},
                                                   {"d_v", options.d_v}};
  for (const auto& [name, size] : sizes) {
    if (size < 0 || size > kMaxSize) {
      throw UsageError(
          concat("attention: ", name, ": expected a size from 0 to ", kMaxSize, ", found ", size));
    }
  }
  if (!(options.variant.softcap >= 0) || std::isinf(options.variant.softcap))
    throw UsageError(concat("attention: softcap: expected 0 (none) or a positive number, found ",
                            options.variant.softcap));
  if ((options.d_k == 0 || options.d_v == 0) && options.d_model % options.heads != 0) {
    throw UsageError(concat("attention: ", options.heads, " heads do not divide d_model ", options.d_model,
                            "; give d_k and d_v"));
  }
  const auto fill = [](int64_t& field, int64_t value) {
    if (field == 0) field = value;
  };
  fill(options.key_heads, options.heads);
  if (options.key_heads < 1 || options.heads % options.key_heads != 0) {
    throw UsageError(
        concat("attention: key_heads must divide heads, found ", options.key_heads, " and ", options.heads));
  }
  fill(options.d_k, options.d_model / options.heads);
  fill(options.d_v, options.d_model / options.heads);
  PositionOptions& positions = options.variant.positions;
  if (positions.kind == PositionKind::rotary) {
    if (positions.rotary_features == 0 && options.d_k % 2 != 0)
      throw UsageError(concat("attention: rotary positions need an even d_k, found ", options.d_k));
    fill(positions.rotary_features, options.d_k);
    if (positions.rotary_features < 2 || positions.rotary_features % 2 != 0 ||
        positions.rotary_features > options.d_k) {
      throw UsageError(concat("attention: rotary_features: expected 0 (all) or an even number up to d_k ",
                              options.d_k, ", found ", positions.rotary_features));
    }
    if (positions.rotary_scaling.query_growth != 0 && positions.rotary_features != options.d_k &&
        options.variant.latent == LatentOptions())
      throw UsageError(concat("attention: query_growth: expected all ", options.d_k,
                              " features of a head rotated, found ", positions.rotary_features));
  }
  if (!options.variant.scale) options.variant.scale = 1.0f / std::sqrt(static_cast<float>(options.d_k));
  if (!(options.variant.clip >= 0))
    throw UsageError(
        concat("attention: clip: expected 0 (none) or a positive number, found ", options.variant.clip));
  if (options.variant.keys_as_values && options.d_k != options.d_v)
    throw UsageError(
        concat("attention: keys_as_values: expected a d_v of d_k, ", options.d_k, ", found ", options.d_v));
  if (options.variant.latent != LatentOptions() &&
      (positions.kind != PositionKind::rotary || options.variant.value_scale != 1 ||
       options.key_heads != options.heads || options.variant.query_key_norm != QueryKeyNorm::none ||
       options.variant.clip > 0 || options.variant.keys_as_values || options.variant.value_norm))
    throw UsageError(
        "attention: latent: expected rotary positions and as many key heads as heads, without norms of "
        "heads, "
        "value_scale, clip and keys_as_values, found another variant");
  if (options.variant.window < 0)
    throw UsageError(
        concat("attention: window: expected 0 (all positions) or more, found ", options.variant.window));
  return options;
}

}  // namespace qkv::nn
