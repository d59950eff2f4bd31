// Mistral (Jiang et al. 2023): LLaMA's layout, with a sliding window in some models.

#include "qkv/models/families/decoders/llama_family.h"

namespace qkv::models {
namespace {

// transformers' defaults for missing fields. null is none of them: no window, as many key heads as heads.
void table(const Fields& fields, Described<LanguageModelConfig>& model) {
  llama_fields(fields, model, {.key_heads = 8, .max_positions = 131072});
  fields.count_or_null("sliding_window", model.layer.attention.window, 4096);
  fields.expect("attention_bias", false);
  fields.expect("mlp_bias", false);
}

}  // namespace

LanguageFamily mistral_family() {
  return {.model_type = "mistral",
          .classes = {{"MistralForCausalLM"}, {"MistralModel"}},
          .base = llama_base(),
          .table = table,
          .weight_map = llama_weight_map};
}

}  // namespace qkv::models
