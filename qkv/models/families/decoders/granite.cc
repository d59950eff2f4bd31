// Granite (IBM 2024) and HyperCLOVA X (NAVER Cloud 2024): LLaMA's layout, with factors of the embeddings,
// scores, sublayers and logits; the latter also with norms of the sublayers' results.

#include <cmath>

#include "qkv/models/families/decoders/llama_family.h"

namespace qkv::models {
namespace {

void common_fields(const Fields& fields, Described<LanguageModelConfig>& model) {
  llama_fields(fields, model);
  attention_bias(fields, model.layer);
  fields("mlp_bias", model.layer.feed_forward_bias, false);
  fields("embedding_multiplier", model.config.embedding.factor, 1);
  fields("residual_multiplier", model.layer.residual_scale, 1);
}

void granite_table(const Fields& fields, Described<LanguageModelConfig>& model) {
  common_fields(fields, model);
  float scale = model.layer.attention.scale.value_or(1 / std::sqrt(static_cast<float>(model.layer.d_k)));
  fields("attention_multiplier", scale, 1);
  model.layer.attention.scale = scale;
  // The file has the divisor: the number of few digits whose inverse is the factor, if there is one.
  float& factor = model.config.logit_scale;
  double divisor = 1 / double{factor};
  if (const double brief = std::round(1e4 * divisor) / 1e4; static_cast<float>(1 / brief) == factor)
    divisor = brief;
  fields("logits_scaling", divisor, 1);
  fields.require("logits_scaling", divisor > 0, "a number above 0");
  factor = static_cast<float>(1 / divisor);
}

// Its factors are all factors, and the scores' is the usual one if missing.
void hyperclovax_table(const Fields& fields, Described<LanguageModelConfig>& model) {
  nn::LayerOptions& layer = model.layer;
  common_fields(fields, model);
  fields("logits_scaling", model.config.logit_scale, 1);
  const float usual = 1 / std::sqrt(static_cast<float>(layer.d_k));
  float scale = layer.attention.scale.value_or(usual);
  fields("attention_multiplier", scale, usual);
  if (scale == usual) {
    layer.attention.scale.reset();
  } else {
    layer.attention.scale = scale;
  }
  bool outputs = layer.norm == nn::NormPlacement::both;
  fields("use_post_norm", outputs, true);
  layer.norm = outputs ? nn::NormPlacement::both : nn::NormPlacement::pre;
}

WeightMap hyperclovax_weight_map(const LanguageModelConfig& config) {
  return with_rules({{"decoder.layers.#.self_attn_output_norm", "model.layers.#.post_norm1"},
                     {"decoder.layers.#.final_output_norm", "model.layers.#.post_norm2"}},
                    llama_weight_map(config));
}

}  // namespace

LanguageFamily granite_family() {
  return {.model_type = "granite",
          .classes = {{"GraniteForCausalLM"}, {"GraniteModel"}},
          .base = llama_base(),
          .table = granite_table,
          .weight_map = llama_weight_map};
}

LanguageFamily hyperclovax_family() {
  return {.model_type = "hyperclovax",
          .classes = {{"HyperCLOVAXForCausalLM"}, {"HyperCLOVAXModel"}},
          .base = llama_base(),
          .table = hyperclovax_table,
          .weight_map = hyperclovax_weight_map};
}

}  // namespace qkv::models
