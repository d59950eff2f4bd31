// Qwen 2 (Yang et al. 2024): LLaMA's layout, with biases of queries, keys and values, and a window in the
// upper layers of some models.

#include "qkv/models/families/decoders/llama_family.h"

namespace qkv::models {
namespace {

void table(const Fields& fields, Described<LanguageModelConfig>& model) {
  llama_fields(fields, model, {.key_heads = 32, .max_positions = 32768});
  upper_windows(fields, model);
  fields.irrelevant("use_mrope");  // of images
}

Described<LanguageModelConfig> base() {
  Described<LanguageModelConfig> model = llama_base();
  model.layer.attention.bias = {.output = false};
  return model;
}

}  // namespace

LanguageFamily qwen2_family() {
  return {.model_type = "qwen2",
          .classes = {{"Qwen2ForCausalLM"}, {"Qwen2Model"}},
          .base = base(),
          .table = table,
          .weight_map = llama_weight_map};
}

}  // namespace qkv::models
