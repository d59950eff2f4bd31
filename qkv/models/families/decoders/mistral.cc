// Mistral (Jiang et al. 2023): LLaMA's layout, with a sliding window in some models; Ministral's layers
// differ in it.

#include "qkv/models/families/decoders/llama_family.h"

namespace qkv::models {
namespace {

LlamaDefaults defaults() { return {.key_heads = 8, .max_positions = 131072}; }

// transformers' defaults for missing fields. null is none of them: no window, as many key heads as heads.
void table(const Fields& fields, Described<LanguageModelConfig>& model) {
  llama_fields(fields, model, defaults());
  fields.count_or_null("sliding_window", model.layer.attention.window, 4096);
  fields.expect("attention_bias mlp_bias", false);
}

void ministral_table(const Fields& fields, Described<LanguageModelConfig>& model) {
  llama_fields(fields, model, defaults());
  fields.expect("attention_bias mlp_bias", false);
  sliding_window(fields, model, 4096, [](int64_t) { return true; });
}

void ministral3_table(const Fields& fields, Described<LanguageModelConfig>& model) {
  llama_fields(
      fields, model,
      {.key_heads = 8, .max_positions = 262144, .head_width = 128, .epsilon = 1e-5, .query_growth = true});
  const nn::RotaryScaling& scaling = model.layer.attention.positions.rotary_scaling;
  fields.require("rope_parameters", scaling.kind == nn::RotaryScalingKind::yarn,
                 "an object with the rope_type yarn");
  fields.expect("attention_bias mlp_bias", false);
  fields.count_or_null("sliding_window", model.layer.attention.window, 0);
}

}  // namespace

LanguageFamily mistral_family() {
  return {.model_type = "mistral",
          .classes = {{"MistralForCausalLM"}, {"MistralModel"}},
          .base = llama_base(),
          .table = table,
          .weight_map = llama_weight_map};
}

LanguageFamily ministral_family() {
  return {.model_type = "ministral",
          .classes = {{"MinistralForCausalLM"}, {"MinistralModel"}},
          .base = llama_base(),
          .table = ministral_table,
          .weight_map = llama_weight_map};
}

LanguageFamily ministral3_family() {
  return {.model_type = "ministral3",
          .classes = {{"Ministral3ForCausalLM"}, {"Ministral3Model"}},
          .base = llama_base(),
          .table = ministral3_table,
          .weight_map = llama_weight_map};
}

}  // namespace qkv::models
