// Qwen 3 (Yang et al. 2025): Qwen 2's layout, with norms of each head's queries and keys, and optional
// biases.

#include "qkv/models/families/decoders/llama_family.h"

namespace qkv::models {
namespace {

void table(const Fields& fields, Described<LanguageModelConfig>& model) {
  llama_fields(fields, model, {.key_heads = 32, .max_positions = 32768, .head_width = 128});
  attention_bias(fields, model.layer);
  upper_windows(fields, model);
}

Described<LanguageModelConfig> base() {
  Described<LanguageModelConfig> model = llama_base();
  model.layer.attention.query_key_norm = nn::QueryKeyNorm::head;
  return model;
}

}  // namespace

LanguageFamily qwen3_family() {
  return {.model_type = "qwen3",
          .classes = {{"Qwen3ForCausalLM"}, {"Qwen3Model"}},
          .base = base(),
          .table = table,
          .weight_map = llama_weight_map};
}

}  // namespace qkv::models
