// DeepSeek-V2 and V3 (DeepSeek-AI 2024) and models with V3's experts: experts of all tokens beside those that
// are chosen, within groups, in layers above the first ones. V2 and V3 have latent attention.

#include <algorithm>

#include "qkv/models/families/experts/expert_layers.h"
#include "qkv/models/families/latent/latent_family.h"

namespace qkv::models {
namespace {

struct Defaults {
  int64_t d_ff = 2048, count = 256, per_token = 8, shared = 1, groups = 1, choices = 1, dense = 1;
  double scale = 1;
  bool normalise = true;
  bool listed = false;  // "mlp_layer_types" has the kind of each layer
};

// "mlp_layer_types": how many layers are dense, which are the first.
int64_t dense_layers(const Fields& fields, const std::vector<int64_t>& dense, int64_t layers) {
  std::vector<std::string> kinds;
  for (int64_t i = 0; i < layers && !fields.reads(); ++i)
    kinds.emplace_back(std::ranges::find(dense, i) != dense.end() ? "dense" : "sparse");
  fields("mlp_layer_types", kinds);
  if (fields.absent("mlp_layer_types")) return 1;
  const auto first = std::ranges::find(kinds, "sparse");
  fields.require("mlp_layer_types",
                 std::ssize(kinds) == layers &&
                     std::all_of(first, kinds.end(), [](const auto& kind) { return kind == "sparse"; }) &&
                     std::all_of(kinds.begin(), first, [](const auto& kind) { return kind == "dense"; }),
                 concat(layers, " kinds, dense ones before sparse ones"));
  fields.irrelevant("first_k_dense_replace");  // repeats the list
  return first - kinds.begin();
}

// Sets the stack, after all fields of its layers. `mixed` is what expert_layers() had on writing.
void expert_layer_fields(const Fields& fields, Described<LanguageModelConfig>& model, ExpertLayers& mixed,
                         const Defaults& usual) {
  nn::ExpertOptions& experts = mixed.experts;
  // At least 1, even if no layer has experts.
  int64_t shared = std::max<int64_t>(experts.shared_d_ff / mixed.d_ff, 1), first = std::ssize(mixed.dense);
  expert_fields(fields, "n_routed_experts", experts, usual.count, usual.per_token);
  fields("moe_intermediate_size", mixed.d_ff, usual.d_ff);
  fields("n_shared_experts", shared, usual.shared);
  fields("routed_scaling_factor", experts.scale, usual.scale);
  fields("n_group", experts.groups, fields.is_null("n_group") ? 1 : usual.groups);
  fields("topk_group", experts.group_choices, fields.is_null("topk_group") ? 1 : usual.choices);
  fields("norm_topk_prob", experts.normalise, usual.normalise);
  if (usual.listed) {
    first = dense_layers(fields, mixed.dense, model.layers);
  } else {
    fields("first_k_dense_replace", first, usual.dense);
  }
  fields.require("n_shared_experts", shared >= 1, "at least 1");
  fields.expect("moe_layer_freq", 1);
  // Of training, of parallelisation, and of layers that predict later tokens, which are not read.
  fields.irrelevant("aux_loss_alpha seq_aux ep_size num_nextn_predict_layers num_mtp_layers pretraining_tp");
  if (!fields.reads()) return;
  experts.shared_d_ff = shared * mixed.d_ff;
  mixed.dense_d_ff = model.layer.d_ff;
  set_expert_layers(model, mixed, [&](int64_t i) { return i < first; });
}

// Those of V3, whose weights are sigmoids.
void sigmoid_layers(const Fields& fields, Described<LanguageModelConfig>& model, ExpertLayers& mixed,
                    const Defaults& usual) {
  mixed.experts.sigmoid = mixed.experts.correction_bias = true;
  fields.expect("topk_method", "noaux_tc");
  fields.expect("scoring_func", "sigmoid");
  expert_layer_fields(fields, model, mixed, usual);
}

ExpertLayers layers_of(Described<LanguageModelConfig>& model) {
  ExpertLayers mixed = expert_layers(model.config.decoder);
  model.layer.d_ff = mixed.dense_d_ff > 0 ? mixed.dense_d_ff : mixed.d_ff;
  return mixed;
}

void v2_table(const Fields& fields, Described<LanguageModelConfig>& model) {
  ExpertLayers mixed = layers_of(model);
  latent_fields(fields, model, {});
  fields.expect("mlp_bias", false);
  nn::ExpertOptions& experts = mixed.experts;
  std::string method = experts.groups > 1 ? "group_limited_greedy" : "greedy";
  fields("topk_method", method, "greedy");
  fields.require("topk_method", method == "greedy" || method == "group_limited_greedy",
                 "greedy or group_limited_greedy");
  fields.expect("scoring_func", "softmax");
  fields.expect("norm_topk_prob", false);
  experts.normalise = false;
  experts.group_scores = 1;
  expert_layer_fields(fields, model, mixed,
                      {.d_ff = 1407, .count = 64, .shared = 2, .dense = 0, .normalise = false});
  if (!fields.reads()) return;
  for (nn::LayerOptions& layer : model.config.decoder.layers) {
    if (method == "greedy") layer.experts.groups = layer.experts.group_choices = 1;
  }
}

void v3_table(const Fields& fields, Described<LanguageModelConfig>& model) {
  ExpertLayers mixed = layers_of(model);
  latent_fields(fields, model, {.llama = {.max_positions = 4096}});
  fields.expect("rope_interleave", true);
  sigmoid_layers(fields, model, mixed, {.groups = 8, .choices = 4, .dense = 3, .scale = 2.5});
}

void glm4_moe_lite_table(const Fields& fields, Described<LanguageModelConfig>& model) {
  ExpertLayers mixed = layers_of(model);
  latent_fields(
      fields, model,
      {.llama = {.max_positions = 202752, .epsilon = 1e-5}, .query_rank = 768, .plain = 192, .d_v = 256});
  fields.expect("rope_interleave", true);
  sigmoid_layers(fields, model, mixed,
                 {.d_ff = 1536, .count = 64, .per_token = 4, .scale = 1.8, .listed = true});
}

void minimax_m2_table(const Fields& fields, Described<LanguageModelConfig>& model) {
  nn::LayerOptions& layer = model.layer;
  llama_sizes(fields, model, {.key_heads = 8, .head_width = 128});
  int64_t rotated = layer.d_k;  // before transformers 5
  if (fields.reads()) fields("rotary_dim", rotated, rotated);
  const auto width = static_cast<double>(std::max<int64_t>(layer.d_k, 1));
  position_fields(fields, model,
                  {.max_positions = 196608, .rotary_share = static_cast<double>(rotated) / width});
  expert_fields(fields, "num_local_experts", layer.experts, 256, 8);
  fields.expect("scoring_func", "sigmoid");
  fields.expect("use_routing_bias use_qk_norm", true);
  fields.expect("qk_norm_type", "per_layer");
  fields.expect("shared_intermediate_size", 0);
  // Layers that predict later tokens, which are not read.
  fields.irrelevant("attn_type_list mtp_transformer_layers num_mtp_modules use_mtp");
}

WeightMap minimax_m2_weight_map(const LanguageModelConfig& config) {
  return with_rules({{"decoder.layers.#.correction", "model.layers.#.block_sparse_moe"}},
                    mixtral_weight_map(config));
}

Described<LanguageModelConfig> minimax_m2_base() {
  Described<LanguageModelConfig> model = llama_base();
  model.layer.attention.query_key_norm = nn::QueryKeyNorm::all_heads;
  model.layer.experts = {.sigmoid = true, .correction_bias = true};
  return model;
}

void dots1_table(const Fields& fields, Described<LanguageModelConfig>& model) {
  ExpertLayers mixed = layers_of(model);
  llama_fields(fields, model, {});
  attention_bias(fields, model.layer);
  sigmoid_layers(fields, model, mixed, {.d_ff = 1408, .dense = 0, .normalise = false});
  int64_t first = model.layers;
  for (int64_t i = model.layers - 1; i >= 0 && !fields.reads(); --i) {
    if (model.config.decoder.layers[static_cast<size_t>(i)].attention.window > 0) first = i;
  }
  fields("max_window_layers", first, 62);
  sliding_window(fields, model, 4096, [&](int64_t i) { return i >= first; });
  fields.irrelevant("use_sliding_window");  // transformers reads the window alone
}

void glm4_moe_table(const Fields& fields, Described<LanguageModelConfig>& model) {
  ExpertLayers mixed = layers_of(model);
  nn::AttentionVariant& attention = model.layer.attention;
  llama_fields(
      fields, model,
      {.key_heads = 8, .max_positions = 131072, .head_width = 128, .epsilon = 1e-5, .rotary_share = 0.5});
  input_bias(fields, model.layer);
  bool normed = attention.query_key_norm == nn::QueryKeyNorm::head;
  fields("use_qk_norm", normed, false);
  attention.query_key_norm = normed ? nn::QueryKeyNorm::head : nn::QueryKeyNorm::none;
  sigmoid_layers(fields, model, mixed, {.d_ff = 1408, .count = 128});
}

void solar_open_table(const Fields& fields, Described<LanguageModelConfig>& model) {
  ExpertLayers mixed = layers_of(model);
  llama_sizes(fields, model, {.key_heads = 8, .head_width = 128, .epsilon = 1e-5, .dense_width = false});
  position_fields(fields, model, {.max_positions = 131072});
  input_bias(fields, model.layer);
  fields.irrelevant("intermediate_size");  // of no layer
  sigmoid_layers(fields, model, mixed, {.d_ff = 1280, .count = 128, .dense = 0});
}

WeightMap weight_map(const LanguageModelConfig& config) {
  const std::string ours = "decoder.layers.#.", theirs = "model.layers.#.mlp.";
  return with_rules({{ours + "shared_expert.gate", theirs + "shared_experts.gate_proj"},
                     {ours + "shared_expert.fc1", theirs + "shared_experts.up_proj"},
                     {ours + "shared_expert.fc2", theirs + "shared_experts.down_proj"},
                     {ours + "correction", theirs + "gate"}},
                    expert_weight_map(config, {}));
}

WeightMap with_latents(const LanguageModelConfig& config) {
  return latent_weight_map(config, true, weight_map(config));
}

Described<LanguageModelConfig> normed_base() {
  Described<LanguageModelConfig> model = llama_base();
  model.layer.attention.query_key_norm = nn::QueryKeyNorm::head;
  return model;
}

}  // namespace

LanguageFamily deepseek_v2_family() {
  return {.model_type = "deepseek_v2",
          .classes = {{"DeepseekV2ForCausalLM"}, {"DeepseekV2Model"}},
          .base = llama_base(),
          .table = v2_table,
          .weight_map = with_latents};
}

LanguageFamily deepseek_v3_family() {
  return {.model_type = "deepseek_v3",
          .classes = {{"DeepseekV3ForCausalLM"}, {"DeepseekV3Model"}},
          .base = llama_base(),
          .table = v3_table,
          .weight_map = with_latents};
}

LanguageFamily dots1_family() {
  return {.model_type = "dots1",
          .classes = {{"Dots1ForCausalLM"}, {"Dots1Model"}},
          .base = normed_base(),
          .table = dots1_table,
          .weight_map = weight_map};
}

LanguageFamily glm4_moe_family() {
  return {.model_type = "glm4_moe",
          .classes = {{"Glm4MoeForCausalLM"}, {"Glm4MoeModel"}},
          .base = llama_base(),
          .table = glm4_moe_table,
          .weight_map = weight_map};
}

LanguageFamily glm4_moe_lite_family() {
  return {.model_type = "glm4_moe_lite",
          .classes = {{"Glm4MoeLiteForCausalLM"}, {"Glm4MoeLiteModel"}},
          .base = llama_base(),
          .table = glm4_moe_lite_table,
          .weight_map = with_latents};
}

LanguageFamily minimax_m2_family() {
  return {.model_type = "minimax_m2",
          .classes = {{"MiniMaxM2ForCausalLM"}, {"MiniMaxM2Model"}},
          .base = minimax_m2_base(),
          .table = minimax_m2_table,
          .weight_map = minimax_m2_weight_map};
}

LanguageFamily solar_open_family() {
  return {.model_type = "solar_open",
          .classes = {{"SolarOpenForCausalLM"}, {"SolarOpenModel"}},
          .base = llama_base(),
          .table = solar_open_table,
          .weight_map = weight_map};
}

}  // namespace qkv::models
