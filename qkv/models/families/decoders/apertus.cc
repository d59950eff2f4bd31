// Apertus (Swiss AI 2025): LLaMA's layout with norms of each head's queries and keys, and xIELU, whose two
// factors are learned in each layer, without a gate.

#include "qkv/models/families/decoders/llama_family.h"

namespace qkv::models {
namespace {

void table(const Fields& fields, Described<LanguageModelConfig>& model) {
  llama_fields(
      fields, model,
      {.max_positions = 65536, .epsilon = 1e-5, .rotary_base = 12000000, .activation_field = nullptr});
  fields.expect("hidden_act", "xielu");
  attention_bias(fields, model.layer);
}

WeightMap weight_map(const LanguageModelConfig& config) {
  const std::string ours = "decoder.layers.#.", theirs = "model.layers.#.";
  WeightMap map = with_rules({{ours + "self_attn_layer_norm", theirs + "attention_layernorm"},
                              {ours + "final_layer_norm", theirs + "feedforward_layernorm"},
                              {ours + "xielu", theirs + "mlp.act_fn"}},
                             llama_weight_map(config));
  for (int64_t i = 0; i < config.decoder.size(); ++i) {
    const std::string constants = concat("model.layers.", i, ".mlp.act_fn.");
    map.constants.push_back({constants + "beta", 0.5f});
    map.constants.push_back({constants + "eps", -1e-6f});  // greater x count as this in e^x - 1
  }
  return map;
}

Described<LanguageModelConfig> base() {
  Described<LanguageModelConfig> model = llama_base();
  model.layer.gated = false;
  model.layer.xielu = true;
  model.layer.attention.query_key_norm = nn::QueryKeyNorm::head;
  model.layer.attention.positions.rotary_scaling = {
      .kind = nn::RotaryScalingKind::llama3, .factor = 8, .first_positions = 8192};
  return model;
}

}  // namespace

LanguageFamily apertus_family() {
  return {.model_type = "apertus",
          .classes = {{"ApertusForCausalLM"}, {"ApertusModel"}},
          .base = base(),
          .table = table,
          .weight_map = weight_map};
}

}  // namespace qkv::models
