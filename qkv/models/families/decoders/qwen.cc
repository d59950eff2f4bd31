// Qwen 2 and Qwen 3 (Yang et al. 2024, 2025): LLaMA's layout, with a window in the upper layers of some
// models; the former has biases of queries, keys and values, the latter norms of each head's queries and
// keys.

#include "qkv/models/families/decoders/llama_family.h"

namespace qkv::models {
namespace {

void qwen2_table(const Fields& fields, Described<LanguageModelConfig>& model) {
  llama_fields(fields, model, {.key_heads = 32, .max_positions = 32768});
  upper_windows(fields, model);
  fields.irrelevant("use_mrope");  // of images
}

void qwen3_table(const Fields& fields, Described<LanguageModelConfig>& model) {
  llama_fields(fields, model, {.key_heads = 32, .max_positions = 32768, .head_width = 128});
  attention_bias(fields, model.layer);
  upper_windows(fields, model);
}

}  // namespace

LanguageFamily qwen2_family() {
  Described<LanguageModelConfig> model = llama_base();
  model.layer.attention.bias = {.output = false};
  return {.model_type = "qwen2",
          .classes = {{"Qwen2ForCausalLM"}, {"Qwen2Model"}},
          .base = std::move(model),
          .table = qwen2_table,
          .weight_map = llama_weight_map};
}

LanguageFamily qwen3_family() {
  Described<LanguageModelConfig> model = llama_base();
  model.layer.attention.query_key_norm = nn::QueryKeyNorm::head;
  return {.model_type = "qwen3",
          .classes = {{"Qwen3ForCausalLM"}, {"Qwen3Model"}},
          .base = std::move(model),
          .table = qwen3_table,
          .weight_map = llama_weight_map};
}

}  // namespace qkv::models
