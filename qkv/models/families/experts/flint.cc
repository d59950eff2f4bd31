// Flint (2026) and Kolibri (Aleph Alpha 2026): norms of each head's queries and keys, positions only in
// layers with a window, sigmoids of experts beside one of all tokens. Flint has sinks and dense layers;
// Kolibri has norms of the sublayers' results, and chooses experts by corrected logits.

#include <algorithm>

#include "qkv/models/families/decoders/llama_family.h"
#include "qkv/models/families/experts/expert_layers.h"

namespace qkv::models {
namespace {

constexpr int64_t kWindow = 513;

void flint_table(const Fields& fields, Described<LanguageModelConfig>& model) {
  nn::LayerOptions& layer = model.layer;
  describe_rotary_layer(fields, model);
  ExpertLayers mixed = expert_layers(model.config.decoder);
  layer.d_ff = mixed.dense_d_ff > 0 ? mixed.dense_d_ff : mixed.d_ff;
  llama_fields(fields, model, {.key_heads = 4, .max_positions = 262144, .head_width = 128});
  attention_bias(fields, layer);
  // At least 1, even if no layer has experts.
  int64_t shared = std::max<int64_t>(mixed.experts.shared_d_ff, 1);
  fields("shared_expert_intermediate_size", shared, 1024);
  fields.require("shared_expert_intermediate_size", shared >= 1, "at least 1");
  mixed.experts.sigmoid = true;
  mixed.experts.shared_d_ff = shared;
  qwen_expert_layers(fields, model, mixed,
                     {.d_ff = 512, .count = 256, .per_token = 6, .normalise = true, .dense = {0, 1}});
  fields.require("sliding_window", !fields.is_null("sliding_window"), "at least 1");
  placed_windows(fields, model, kWindow,
                 [&](int64_t i) { return i >= 2 && i % 4 != 1 && i != model.layers - 1; });
}

WeightMap flint_weight_map(const LanguageModelConfig& config) {
  return with_rules({{"decoder.layers.#.self_attn.sinks", "model.layers.#.self_attn.softmax_offset"}},
                    with_shared_expert(expert_weight_map(config, {}), "mlp.shared_expert"));
}

void kolibri_table(const Fields& fields, Described<LanguageModelConfig>& model) {
  nn::LayerOptions& layer = model.layer;
  nn::ExpertOptions& experts = layer.experts;
  describe_rotary_layer(fields, model);
  llama_fields(fields, model,
               {.key_heads = 4, .max_positions = 262144, .head_width = 128, .dense_width = false});
  expert_fields(fields, {"num_local_experts", "num_experts"}, experts, 384, 6);
  fields("moe_intermediate_size", layer.d_ff, 512);
  fields("shared_expert_intermediate_size", experts.shared_d_ff, 512);
  fields.require("shared_expert_intermediate_size", experts.shared_d_ff >= 1, "at least 1");
  fields("norm_topk_prob", experts.normalise, false);
  placed_windows(fields, model, kWindow, [](int64_t i) { return (i + 1) % 5 != 0; });
}

WeightMap kolibri_weight_map(const LanguageModelConfig& config) {
  const std::string ours = "decoder.layers.#.", theirs = "model.layers.#.";
  return with_rules({{ours + "self_attn_output_norm", theirs + "post_attn_norm"},
                     {ours + "final_output_norm", theirs + "post_ffn_norm"},
                     {ours + "correction.e_score_correction_bias", theirs + "moe.router.expert_bias"}},
                    with_shared_expert(expert_weight_map(config, {}), "mlp.shared_experts"));
}

LanguageFamily with_head_norms(LanguageFamily family) {
  family.base = llama_base();
  family.base.layer.attention.query_key_norm = nn::QueryKeyNorm::head;
  return family;
}

}  // namespace

LanguageFamily flint_family() {
  LanguageFamily family = with_head_norms({.model_type = "flint",
                                           .classes = {{"FlintForCausalLM"}, {"FlintModel"}},
                                           .base = {},
                                           .table = flint_table,
                                           .weight_map = flint_weight_map});
  family.base.layer.attention.sinks = true;
  return family;
}

LanguageFamily kolibri1_family() {
  LanguageFamily family = with_head_norms({.model_type = "kolibri1",
                                           .classes = {{"Kolibri1ForCausalLM"}, {"Kolibri1Model"}},
                                           .base = {},
                                           .table = kolibri_table,
                                           .weight_map = kolibri_weight_map});
  family.base.layer.norm = nn::NormPlacement::both;
  family.base.layer.experts = {.sigmoid = true, .correction_bias = true, .corrects_logits = true};
  return family;
}

}  // namespace qkv::models
