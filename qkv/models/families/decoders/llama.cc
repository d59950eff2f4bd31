// LLaMA (Touvron et al. 2023) and models of the same layout, with optional biases.

#include "qkv/models/families/decoders/llama_family.h"

namespace qkv::models {
namespace {

void table(const Fields& fields, Described<LanguageModelConfig>& model) {
  llama_fields(fields, model);
  attention_bias(fields, model.layer);
  fields("mlp_bias", model.layer.feed_forward_bias, false);
  // A parallelisation setting that does not affect results; fields repeated in SmolLM's folders.
  fields.irrelevant("pretraining_tp is_llama_config rope_interleaved");
}

}  // namespace

LanguageFamily llama_family() {
  return {.model_type = "llama",
          .classes = {{"LlamaForCausalLM"}, {"LlamaModel"}},
          .base = llama_base(),
          .table = table,
          .weight_map = llama_weight_map};
}

}  // namespace qkv::models
