// OLMoE (Muennighoff et al. 2024): experts in all layers, norms of the queries and keys of all heads.
// FlexOlmo (Shi et al. 2025) has norms of the sublayers' results instead of their inputs, as OLMo 2.

#include "qkv/models/families/decoders/llama_family.h"
#include "qkv/models/families/experts/expert_layers.h"

namespace qkv::models {
namespace {

void table(const Fields& fields, Described<LanguageModelConfig>& model) {
  auto& [config, layer, layers] = model;
  llama_fields(fields, model, {.max_positions = 4096, .epsilon = 1e-5});
  attention_bias(fields, layer);
  expert_fields(fields, "num_experts", layer.experts, 64, 8);
  fields("norm_topk_prob", layer.experts.normalise, false);
  fields.require("clip_qkv", fields.absent("clip_qkv"), "null");
  fields.irrelevant("clip_qkv");
}

void flex_table(const Fields& fields, Described<LanguageModelConfig>& model) {
  llama_fields(fields, model, {.max_positions = 4096, .rotary_base = 500000});
  attention_bias(fields, model.layer);
  expert_fields(fields, "num_experts", model.layer.experts, 7, 5);
  fields("norm_topk_prob", model.layer.experts.normalise, false);
}

Described<LanguageModelConfig> base(nn::NormPlacement norm) {
  Described<LanguageModelConfig> model = llama_base();
  model.layer.norm = norm;
  model.layer.attention.query_key_norm = nn::QueryKeyNorm::all_heads;
  return model;
}

WeightMap weight_map(const LanguageModelConfig& config) { return expert_weight_map(config, {}); }

WeightMap flex_weight_map(const LanguageModelConfig& config) {
  WeightMap map = output_norm_weight_map(config);
  for (WeightRule& rule : expert_weight_map(config, {}).rules) map.rules.push_back(std::move(rule));
  return map;
}

}  // namespace

LanguageFamily flex_olmo_family() {
  return {.model_type = "flex_olmo",
          .classes = {{"FlexOlmoForCausalLM"}, {"FlexOlmoModel"}},
          .base = base(nn::NormPlacement::output),
          .table = flex_table,
          .weight_map = flex_weight_map};
}

LanguageFamily olmoe_family() {
  return {.model_type = "olmoe",
          .classes = {{"OlmoeForCausalLM"}, {"OlmoeModel"}},
          .base = base(nn::NormPlacement::pre),
          .table = table,
          .weight_map = weight_map};
}

}  // namespace qkv::models
