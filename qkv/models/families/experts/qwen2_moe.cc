// Qwen 2's mixtures of experts (Yang et al. 2024): with an expert of all tokens, behind a gate.

#include "qkv/models/families/decoders/llama_family.h"
#include "qkv/models/families/experts/expert_layers.h"

namespace qkv::models {
namespace {

void table(const Fields& fields, Described<LanguageModelConfig>& model) {
  auto& [config, layer, layers] = model;
  ExpertLayers mixed = expert_layers(config.decoder);
  layer.d_ff = mixed.dense_d_ff > 0 ? mixed.dense_d_ff : mixed.d_ff;
  llama_fields(fields, model, {.key_heads = 16, .max_positions = 32768});
  input_bias(fields, layer, "qkv_bias", true);
  fields("shared_expert_intermediate_size", mixed.experts.shared_d_ff, 5632);
  mixed.experts.shared_gate = true;
  qwen_expert_layers(fields, model, mixed, {.d_ff = 1408, .count = 60, .per_token = 4});
  int64_t window = window_of(config), last = layers;
  bool used = window > 0;
  fields("use_sliding_window", used, false);
  if (used) {
    fields("sliding_window", window, 4096);
    fields("max_window_layers", last, 28);
  }
  fields.irrelevant("sliding_window max_window_layers");
  layer_types(fields, model, used ? window : 0, [&](int64_t i) { return used && i % 2 == 0 && i < last; });
}

WeightMap weight_map(const LanguageModelConfig& config) {
  WeightMap map = with_shared_expert(expert_weight_map(config, {}), "mlp.shared_expert");
  map.rules.push_back({"decoder.layers.#.shared_gate", "model.layers.#.mlp.shared_expert_gate"});
  return map;
}

}  // namespace

LanguageFamily qwen2_moe_family() {
  return {.model_type = "qwen2_moe",
          .classes = {{"Qwen2MoeForCausalLM"}, {"Qwen2MoeModel"}},
          .base = llama_base(),
          .table = table,
          .weight_map = weight_map};
}

}  // namespace qkv::models
