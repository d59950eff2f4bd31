// Granite (IBM 2024) and HyperCLOVA X (NAVER Cloud 2024): LLaMA's layout, with factors of the embeddings,
// scores, sublayers and logits; the latter also with norms of the sublayers' results. Granite's windowed
// models have sinks, and in each layer a rotary base of its own or no positions.

#include <cmath>

#include "qkv/models/families/decoders/llama_family.h"

namespace qkv::models {
namespace {

void common_fields(const Fields& fields, Described<LanguageModelConfig>& model,
                   const LlamaDefaults& defaults = {}) {
  llama_fields(fields, model, defaults);
  attention_bias(fields, model.layer);
  fields("mlp_bias", model.layer.feed_forward_bias, false);
  fields("embedding_multiplier", model.config.embedding.factor, 1);
  fields("residual_multiplier", model.layer.residual_scale, 1);
}

void granite_fields(const Fields& fields, Described<LanguageModelConfig>& model,
                    const LlamaDefaults& defaults) {
  common_fields(fields, model, defaults);
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

void granite_table(const Fields& fields, Described<LanguageModelConfig>& model) {
  granite_fields(fields, model, {});
}

// "layer_rope_theta": 0 means no positions.
void bases_by_layer(const Fields& fields, std::vector<nn::LayerOptions>& stack) {
  std::vector<double> bases;
  for (const nn::LayerOptions& one : stack) {
    const nn::PositionOptions& positions = one.attention.positions;
    if (!fields.reads())
      bases.push_back(positions.kind == nn::PositionKind::rotary ? positions.rotary_base : 0);
  }
  fields("layer_rope_theta", bases);
  if (!fields.reads() || fields.absent("layer_rope_theta")) return;
  fields.require("layer_rope_theta", bases.size() == stack.size(), concat(stack.size(), " numbers"));
  for (size_t i = 0; i < std::min(bases.size(), stack.size()); ++i) {
    nn::PositionOptions& positions = stack[i].attention.positions;
    fields.require("layer_rope_theta", bases[i] >= 0, "0 or more");
    positions.rotary_base = bases[i];
    if (bases[i] == 0) positions = {};
  }
}

void granite_swa_table(const Fields& fields, Described<LanguageModelConfig>& model) {
  describe_rotary_layer(fields, model);
  granite_fields(fields, model, {.key_heads = 4, .max_positions = 8192, .epsilon = 1e-5, .tied = true});
  sliding_window(fields, model, 128, [](int64_t i) { return i % 4 != 0; });
  bases_by_layer(fields, model.config.decoder.layers);
}

Described<LanguageModelConfig> sinks_base() {
  Described<LanguageModelConfig> model = llama_base();
  model.layer.attention.sinks = true;
  return model;
}

WeightMap granite_swa_weight_map(const LanguageModelConfig& config) {
  return with_rules({{"decoder.layers.#.self_attn", "model.layers.#.self_attn"}},  // sinks
                    llama_weight_map(config));
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

LanguageFamily granite_swa_family() {
  return {.model_type = "granite_swa",
          .classes = {{"GraniteSWAForCausalLM"}, {"GraniteSWAModel"}},
          .base = sinks_base(),
          .table = granite_swa_table,
          .weight_map = granite_swa_weight_map};
}

LanguageFamily hyperclovax_family() {
  return {.model_type = "hyperclovax",
          .classes = {{"HyperCLOVAXForCausalLM"}, {"HyperCLOVAXModel"}},
          .base = llama_base(),
          .table = hyperclovax_table,
          .weight_map = hyperclovax_weight_map};
}

}  // namespace qkv::models
