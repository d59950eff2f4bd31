// Mixtral (Jiang et al. 2024): Mistral's layout with experts in all layers.

#include "qkv/models/families/decoders/llama_family.h"
#include "qkv/models/families/experts/expert_layers.h"

namespace qkv::models {
namespace {

void table(const Fields& fields, Described<LanguageModelConfig>& model) {
  auto& [config, layer, layers] = model;
  llama_fields(fields, model,
               {.key_heads = 8, .max_positions = 131072, .epsilon = 1e-5, .rotary_base = 1000000});
  fields.count_or_null("sliding_window", layer.attention.window, 0);
  expert_fields(fields, "num_local_experts", layer.experts, 8, 2);
}

}  // namespace

WeightMap mixtral_weight_map(const LanguageModelConfig& config) {
  return expert_weight_map(config, {.router = "block_sparse_moe.gate",
                                    .experts = "block_sparse_moe.experts.*.",
                                    .gate = "w1",
                                    .up = "w3",
                                    .down = "w2"});
}

LanguageFamily mixtral_family() {
  return {.model_type = "mixtral",
          .classes = {{"MixtralForCausalLM"}, {"MixtralModel"}},
          .base = llama_base(),
          .table = table,
          .weight_map = mixtral_weight_map};
}

}  // namespace qkv::models
