// ERNIE 4.5's mixtures of experts (Baidu 2025): experts of all tokens beside those that are chosen, with a
// correction of the choice, in layers above the first ones; rotary pairs side by side.

#include "qkv/models/families/decoders/llama_family.h"
#include "qkv/models/families/experts/expert_layers.h"

namespace qkv::models {
namespace {

// The layers with experts: every `interval`-th of those from `first` to `last`.
struct Range {
  int64_t first = 1, last = -1, interval = 1;
};

Range range_of(const nn::StackOptions& stack) {
  std::vector<int64_t> mixed;
  for (int64_t i = 0; i < stack.size(); ++i) {
    if (stack.layers[static_cast<size_t>(i)].experts.count > 0) mixed.push_back(i);
  }
  if (mixed.empty()) return {};
  return {mixed.front(), mixed.back(), mixed.size() > 1 ? mixed[1] - mixed[0] : 1};
}

void table(const Fields& fields, Described<LanguageModelConfig>& model) {
  nn::LayerOptions& layer = model.layer;
  ExpertLayers mixed = expert_layers(model.config.decoder);
  nn::ExpertOptions& experts = mixed.experts;
  Range range = range_of(model.config.decoder);
  layer.d_ff = mixed.dense_d_ff > 0 ? mixed.dense_d_ff : mixed.d_ff;
  llama_fields(
      fields, model,
      {.key_heads = 4, .max_positions = 131072, .epsilon = 1e-5, .rotary_base = 500000, .tied = true});
  int64_t shared = experts.shared_d_ff / mixed.d_ff;
  fields("moe_intermediate_size", mixed.d_ff, 1536);
  fields("moe_num_experts", experts.count, 64);
  fields("moe_k", experts.per_token, 6);
  fields("moe_num_shared_experts", shared, 2);
  fields("moe_layer_start_index", range.first, 1);
  fields("moe_layer_end_index", range.last, -1);
  fields("moe_layer_interval", range.interval, 1);
  fields.require("moe_num_experts", experts.count >= 1, "at least 1");
  fields.require("moe_layer_interval", range.interval >= 1, "at least 1");
  fields.expect("use_bias", false);
  fields.expect("moe_norm_min", 1e-12);
  fields.expect("moe_gate", "topk");
  fields.expect("moe_use_aux_free", true);
  fields.irrelevant("moe_capacity num_nextn_predict_layers output_router_logits router_aux_loss_coef");
  if (!fields.reads()) return;
  experts.correction_bias = true;
  experts.shared_d_ff = shared * mixed.d_ff;
  mixed.dense_d_ff = layer.d_ff;
  const int64_t last = range.last == -1 ? model.layers : range.last;
  set_expert_layers(model, mixed,
                    [&](int64_t i) { return (i + 1) % range.interval != 0 || i < range.first || i > last; });
}

WeightMap weight_map(const LanguageModelConfig& config) {
  return with_rules(
      {{.ours = "decoder.layers.#.correction",
        .theirs = "model.layers.#.mlp.moe_statics",
        .shape = {1, expert_layers(config.decoder).experts.count}}},
      with_shared_expert(with_pairs(expert_weight_map(config, {}), config), "mlp.shared_experts"));
}

}  // namespace

LanguageFamily ernie4_5_moe_family() {
  return {.model_type = "ernie4_5_moe",
          .classes = {{"Ernie4_5_MoeForCausalLM"}, {"Ernie4_5_MoeModel"}},
          .base = llama_base(),
          .table = table,
          .weight_map = weight_map};
}

}  // namespace qkv::models
