// K-EXAONE (LG AI Research 2025): EXAONE 4's attention, in which layers without a window have no positions,
// and the experts of DeepSeek-V3.

#include "qkv/models/families/decoders/llama_family.h"
#include "qkv/models/families/experts/deepseek_family.h"

namespace qkv::models {
namespace {

void table(const Fields& fields, Described<LanguageModelConfig>& model) {
  describe_rotary_layer(fields, model);
  ExpertLayers mixed = routed_layers(model);
  llama_fields(fields, model, {.key_heads = 32, .epsilon = 1e-5});
  sigmoid_fields(fields, model, mixed,
                 {.d_ff = 1024,
                  .count = 64,
                  .scale = 2.5,
                  .listed = true,
                  .counted = true,
                  .count_field = "num_experts",
                  .shared_field = "num_shared_experts"});
  exaone_windows(fields, model);
}

WeightMap weight_map(const LanguageModelConfig& config) {
  return with_rules({{"decoder.layers.#.correction", "model.layers.#.mlp"}}, routed_weight_map(config));
}

}  // namespace

LanguageFamily exaone_moe_family() {
  LanguageFamily family{.model_type = "exaone_moe",
                        .classes = {{"ExaoneMoeForCausalLM"}, {"ExaoneMoeModel"}},
                        .base = llama_base(),
                        .table = table,
                        .weight_map = weight_map};
  family.base.layer.attention.query_key_norm = nn::QueryKeyNorm::head;
  return family;
}

}  // namespace qkv::models
