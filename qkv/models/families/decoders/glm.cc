// GLM-4 (Team GLM 2024; "glm" in transformers) and GLM-4-0414 ("glm4"): LLaMA's layout with a share of each
// head rotated, pairs side by side, and a fused gate; the latter also has norms of the sublayers' results.

#include "qkv/models/families/decoders/llama_family.h"

namespace qkv::models {
namespace {

void table(const Fields& fields, Described<LanguageModelConfig>& model) {
  llama_fields(fields, model,
               {.key_heads = 2,
                .max_positions = 131072,
                .head_width = 128,
                .epsilon = 1.5625e-7,
                .rotary_share = 0.5});
  input_bias(fields, model.layer, "attention_bias", true);
}

WeightMap weight_map(const LanguageModelConfig& config) {
  return with_rules({{"decoder.layers.#.self_attn_output_norm", "model.layers.#.post_self_attn_layernorm"},
                     {"decoder.layers.#.final_output_norm", "model.layers.#.post_mlp_layernorm"}},
                    with_pairs(with_fused_gate(llama_weight_map(config), config), config));
}

}  // namespace

LanguageFamily glm_family() {
  return {.model_type = "glm",
          .classes = {{"GlmForCausalLM"}, {"GlmModel"}},
          .base = llama_base(),
          .table = table,
          .weight_map = weight_map};
}

LanguageFamily glm4_family() {
  Described<LanguageModelConfig> model = llama_base();
  model.layer.norm = nn::NormPlacement::both;
  return {.model_type = "glm4",
          .classes = {{"Glm4ForCausalLM"}, {"Glm4Model"}},
          .base = std::move(model),
          .table = table,
          .weight_map = weight_map};
}

}  // namespace qkv::models
