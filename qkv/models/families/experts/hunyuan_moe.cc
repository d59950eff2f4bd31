// Hunyuan's mixtures of experts (Tencent 2024) have the dense models' attention, and an expert of all tokens.
// Those of Hy3 (Tencent 2026) have norms before the rotation, sigmoids, and dense layers first.

#include <algorithm>

#include "qkv/models/families/decoders/llama_family.h"
#include "qkv/models/families/experts/deepseek_family.h"

namespace qkv::models {

LanguageFamily hunyuan_family();  // decoders/hunyuan.cc

namespace {

// A number, or a list of the numbers of all layers, which are the same.
void number_or_list(const Fields& fields, const char* key, int64_t layers, int64_t& value,
                    int64_t otherwise) {
  const auto json = fields.reads() ? fields.reader()->find(key) : std::nullopt;
  if (!json || !json->is_array()) return fields(key, value, otherwise);
  std::vector<int64_t> all;
  fields(key, all);
  if (!all.empty()) value = all.front();
  fields.require(key, std::ssize(all) >= layers && std::ranges::count(all, value) == std::ssize(all),
                 concat("a number, or the same for each of ", layers, " layers"));
}

void table(const Fields& fields, Described<LanguageModelConfig>& model) {
  auto& [config, layer, layers] = model;
  nn::ExpertOptions& experts = layer.experts;
  hunyuan_family().table(fields, model);
  number_or_list(fields, "num_experts", layers, experts.count, 1);
  number_or_list(fields, "moe_topk", layers, experts.per_token, 1);
  fields.require("num_experts", experts.count >= 1, "at least 1");
  if (fields.reads()) {  // transformers takes them for granted
    int64_t width = layer.d_ff, shared = 1;
    number_or_list(fields, "moe_intermediate_size", layers, width, width);
    number_or_list(fields, "num_shared_expert", layers, shared, 1);
    fields.require("moe_intermediate_size", width == layer.d_ff, "intermediate_size");
    fields.require("num_shared_expert", shared == 1, "1");
  }
  fields.expect("use_mixed_mlp_moe", true);
  fields.expect("use_mla group_limited_greedy", false);
  fields.expect("moe_layer_num_skipped", 0);
  fields.irrelevant("sep_token_id output_router_logits moe_drop_tokens moe_random_routing_dropped_token");
  experts.shared_d_ff = layer.d_ff;
}

WeightMap weight_map(const LanguageModelConfig& config) {
  WeightMap map = with_shared_expert(hunyuan_family().weight_map(config), "mlp.shared_mlp");
  for (WeightRule& rule : expert_weight_map(config, {.router = "mlp.gate.wg"}).rules)
    map.rules.push_back(std::move(rule));
  return map;
}

void hy_v3_table(const Fields& fields, Described<LanguageModelConfig>& model) {
  ExpertLayers mixed = routed_layers(model);
  llama_fields(
      fields, model,
      {.key_heads = 8, .max_positions = 131072, .head_width = 128, .epsilon = 1e-5, .rotary_base = 11158840});
  attention_bias(fields, model.layer);
  fields.expect("mlp_bias", false);
  fields.expect("norm_topk_prob", true);
  fields.irrelevant("enable_moe_fp32_combine");
  sigmoid_fields(fields, model, mixed,
                 {.d_ff = 1536,
                  .count = 192,
                  .scale = 2.826,
                  .listed = true,
                  .grouped = false,
                  .count_field = "num_experts",
                  .shared_field = "num_shared_experts",
                  .scale_field = "router_scaling_factor"});
}

WeightMap hy_v3_weight_map(const LanguageModelConfig& config) {
  return with_rules(
      {{"decoder.layers.#.correction.e_score_correction_bias", "model.layers.#.mlp.expert_bias"}},
      with_shared_expert(expert_weight_map(config, {.router = "mlp.router.gate"}), "mlp.shared_mlp"));
}

}  // namespace

LanguageFamily hunyuan_v1_moe_family() {
  return {.model_type = "hunyuan_v1_moe",
          .classes = {{"HunYuanMoEV1ForCausalLM"}, {"HunYuanMoEV1Model"}},
          .base = hunyuan_family().base,
          .table = table,
          .weight_map = weight_map};
}

LanguageFamily hy_v3_family() {
  LanguageFamily family{.model_type = "hy_v3",
                        .classes = {{"HYV3ForCausalLM"}, {"HYV3Model"}},
                        .base = llama_base(),
                        .table = hy_v3_table,
                        .weight_map = hy_v3_weight_map};
  family.base.layer.attention.query_key_norm = nn::QueryKeyNorm::head;
  return family;
}

}  // namespace qkv::models
