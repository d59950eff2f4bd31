// Phi-3.5-MoE (Abdin et al. 2024): Mixtral's layout with layer norms, SparseMixer's choice of two experts,
// and longrope with magnitudes of its own.

#include "qkv/models/families/decoders/llama_family.h"
#include "qkv/models/families/experts/expert_layers.h"

namespace qkv::models {
namespace {

void table(const Fields& fields, Described<LanguageModelConfig>& model) {
  auto& [config, layer, layers] = model;
  llama_fields(
      fields, model,
      {.key_heads = 8, .max_positions = 131072, .epsilon = 1e-5, .rotary_base = 1000000, .magnitudes = true});
  const nn::RotaryScaling& scaling = layer.attention.positions.rotary_scaling;
  const bool longrope = scaling.kind == nn::RotaryScalingKind::longrope;
  fields.require("rope_parameters", longrope || scaling.kind == nn::RotaryScalingKind::none,
                 "the rope_type longrope or default");
  int64_t first = scaling.first_positions;
  if (fields.reads()) fields("original_max_position_embeddings", first, first);
  fields.require("original_max_position_embeddings", !longrope || first == scaling.first_positions,
                 concat(scaling.first_positions, ", as in rope_parameters"));
  attention_bias(fields, layer);
  fields.count_or_null("sliding_window", layer.attention.window, 0);
  fields("lm_head_bias", config.logit_bias, false);
  expert_fields(fields, "num_local_experts", layer.experts, 16, 2);
  fields("router_jitter_noise", layer.experts.sparse_mixer, 0.01);
  fields.require("num_experts_per_tok", layer.experts.per_token == 2, "2");
  fields.require("router_jitter_noise", layer.experts.sparse_mixer > 0, "a number above 0");
  fields.irrelevant("input_jitter_noise");  // of training
}

Described<LanguageModelConfig> base() {
  Described<LanguageModelConfig> model = llama_base();
  model.layer.norm_kind = nn::NormKind::layer;
  return model;
}

}  // namespace

LanguageFamily phimoe_family() {
  return {.model_type = "phimoe",
          .classes = {{"PhimoeForCausalLM"}, {"PhiMoEForCausalLM"}, {"PhimoeModel"}},
          .base = base(),
          .table = table,
          .weight_map = mixtral_weight_map};
}

}  // namespace qkv::models
