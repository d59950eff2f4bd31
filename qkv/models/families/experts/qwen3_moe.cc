// Qwen 3's mixtures of experts (Yang et al. 2025): Qwen 3's attention; some layers may be dense.

#include "qkv/models/families/decoders/llama_family.h"
#include "qkv/models/families/experts/expert_layers.h"

namespace qkv::models {
namespace {

void table(const Fields& fields, Described<LanguageModelConfig>& model) {
  auto& [config, layer, layers] = model;
  ExpertLayers mixed = expert_layers(config.decoder);
  layer.d_ff = mixed.dense_d_ff > 0 ? mixed.dense_d_ff : mixed.d_ff;
  llama_fields(fields, model, {.key_heads = 4, .max_positions = 32768});
  attention_bias(fields, layer);
  layer.attention.window = optional_window(fields, config, 4096);
  qwen_expert_layers(fields, model, mixed, {});
  fields.irrelevant("max_window_layers");
}

Described<LanguageModelConfig> base() {
  Described<LanguageModelConfig> model = llama_base();
  model.layer.attention.query_key_norm = nn::QueryKeyNorm::head;
  return model;
}

WeightMap weight_map(const LanguageModelConfig& config) { return expert_weight_map(config, {}); }

}  // namespace

LanguageFamily qwen3_moe_family() {
  return {.model_type = "qwen3_moe",
          .classes = {{"Qwen3MoeForCausalLM"}, {"Qwen3MoeModel"}},
          .base = base(),
          .table = table,
          .weight_map = weight_map};
}

}  // namespace qkv::models
