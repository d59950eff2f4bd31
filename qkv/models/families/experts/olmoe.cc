// OLMoE (Muennighoff et al. 2024): experts in all layers, norms of the queries and keys of all heads.

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

Described<LanguageModelConfig> base() {
  Described<LanguageModelConfig> model = llama_base();
  model.layer.attention.query_key_norm = nn::QueryKeyNorm::all_heads;
  return model;
}

WeightMap weight_map(const LanguageModelConfig& config) { return expert_weight_map(config, {}); }

}  // namespace

LanguageFamily olmoe_family() {
  return {.model_type = "olmoe",
          .classes = {{"OlmoeForCausalLM"}, {"OlmoeModel"}},
          .base = base(),
          .table = table,
          .weight_map = weight_map};
}

}  // namespace qkv::models
