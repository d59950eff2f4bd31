// Mellum 2 (JetBrains 2026): Qwen 3's attention and experts, with windows and rotary positions by kind of
// layer.

#include <algorithm>

#include "qkv/models/families/decoders/llama_family.h"
#include "qkv/models/families/experts/expert_layers.h"

namespace qkv::models {
namespace {

void table(const Fields& fields, Described<LanguageModelConfig>& model) {
  nn::LayerOptions& layer = model.layer;
  const LlamaDefaults defaults{.key_heads = 4, .max_positions = 131072, .head_width = 128};
  ExpertLayers mixed = expert_layers(model.config.decoder);
  layer.d_ff = mixed.dense_d_ff > 0 ? mixed.dense_d_ff : mixed.d_ff;
  llama_sizes(fields, model, defaults);
  attention_bias(fields, layer);
  expert_fields(fields, {"num_local_experts", "num_experts"}, mixed.experts, 64, 8);
  fields("moe_intermediate_size", mixed.d_ff, 896);
  fields("norm_topk_prob", mixed.experts.normalise, true);
  layer_kinds(fields, mixed, model.layers, 0, false);
  mixed.dense_d_ff = layer.d_ff;
  if (fields.reads())
    set_expert_layers(model, mixed, [&](int64_t i) { return std::ranges::count(mixed.dense, i) > 0; });
  sliding_window(fields, model, 1024, [](int64_t) { return false; });
  rotary_kinds(fields, model, defaults);
  // Of layers that predict later tokens, which are not read.
  fields.irrelevant("num_nextn_predict_layers num_mtp_layers mtp_layer_types mtp_mlp_layer_types");
}

WeightMap weight_map(const LanguageModelConfig& config) { return expert_weight_map(config, {}); }

}  // namespace

LanguageFamily mellum_family() {
  LanguageFamily family{.model_type = "mellum",
                        .classes = {{"MellumForCausalLM"}, {"MellumModel"}},
                        .base = llama_base(),
                        .table = table,
                        .weight_map = weight_map};
  family.base.layer.attention.query_key_norm = nn::QueryKeyNorm::head;
  return family;
}

}  // namespace qkv::models
