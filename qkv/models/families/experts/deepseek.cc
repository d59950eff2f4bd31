// DeepSeek-V2 and V3 (DeepSeek-AI 2024) and models with V3's experts: experts of all tokens beside those that
// are chosen, within groups, in layers above the first ones. V2, V3, Sarvam's larger model (2026) and A.X-K1
// (SK Telecom 2026), which has a norm of the experts' result, have latent attention.

#include "qkv/models/families/experts/deepseek_family.h"
#include "qkv/models/families/latent/latent_family.h"

namespace qkv::models {
namespace {

void v2_table(const Fields& fields, Described<LanguageModelConfig>& model) {
  ExpertLayers mixed = routed_layers(model);
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
  routed_fields(fields, model, mixed,
                {.d_ff = 1407, .count = 64, .shared = 2, .dense = 0, .normalise = false});
  if (!fields.reads()) return;
  for (nn::LayerOptions& layer : model.config.decoder.layers) {
    if (method == "greedy") layer.experts.groups = layer.experts.group_choices = 1;
  }
}

void v3_table(const Fields& fields, Described<LanguageModelConfig>& model) {
  ExpertLayers mixed = routed_layers(model);
  latent_fields(fields, model, {.llama = {.max_positions = 4096}});
  fields.expect("rope_interleave", true);
  sigmoid_fields(fields, model, mixed, {.groups = 8, .choices = 4, .dense = 3, .scale = 2.5});
}

void glm4_moe_lite_table(const Fields& fields, Described<LanguageModelConfig>& model) {
  ExpertLayers mixed = routed_layers(model);
  latent_fields(
      fields, model,
      {.llama = {.max_positions = 202752, .epsilon = 1e-5}, .query_rank = 768, .plain = 192, .d_v = 256});
  fields.expect("rope_interleave", true);
  sigmoid_fields(fields, model, mixed,
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
  ExpertLayers mixed = routed_layers(model);
  llama_fields(fields, model, {});
  attention_bias(fields, model.layer);
  sigmoid_fields(fields, model, mixed, {.d_ff = 1408, .dense = 0, .normalise = false});
  int64_t first = model.layers;
  for (int64_t i = model.layers - 1; i >= 0 && !fields.reads(); --i) {
    if (model.config.decoder.layers[static_cast<size_t>(i)].attention.window > 0) first = i;
  }
  fields("max_window_layers", first, 62);
  sliding_window(fields, model, 4096, [&](int64_t i) { return i >= first; });
  fields.irrelevant("use_sliding_window");  // transformers reads the window alone
}

void glm4_moe_table(const Fields& fields, Described<LanguageModelConfig>& model) {
  ExpertLayers mixed = routed_layers(model);
  nn::AttentionVariant& attention = model.layer.attention;
  llama_fields(
      fields, model,
      {.key_heads = 8, .max_positions = 131072, .head_width = 128, .epsilon = 1e-5, .rotary_share = 0.5});
  input_bias(fields, model.layer);
  bool normed = attention.query_key_norm == nn::QueryKeyNorm::head;
  fields("use_qk_norm", normed, false);
  attention.query_key_norm = normed ? nn::QueryKeyNorm::head : nn::QueryKeyNorm::none;
  sigmoid_fields(fields, model, mixed, {.d_ff = 1408, .count = 128});
}

void solar_open_table(const Fields& fields, Described<LanguageModelConfig>& model) {
  ExpertLayers mixed = routed_layers(model);
  llama_sizes(fields, model, {.key_heads = 8, .head_width = 128, .epsilon = 1e-5, .dense_width = false});
  position_fields(fields, model, {.max_positions = 131072});
  input_bias(fields, model.layer);
  fields.irrelevant("intermediate_size");  // of no layer
  sigmoid_fields(fields, model, mixed, {.d_ff = 1280, .count = 128, .dense = 0});
}

void sarvam_moe_table(const Fields& fields, Described<LanguageModelConfig>& model) {
  ExpertLayers mixed = routed_layers(model);
  nn::AttentionVariant& attention = model.layer.attention;
  llama_fields(
      fields, model,
      {.key_heads = 4, .max_positions = 131072, .head_width = 64, .rotary_base = 8000000, .rotary_share = 1});
  input_bias(fields, model.layer, {"attention_bias", "use_qkv_bias"});
  bool normed = attention.query_key_norm == nn::QueryKeyNorm::head;
  fields("use_qk_norm", normed, true);
  attention.query_key_norm = normed ? nn::QueryKeyNorm::head : nn::QueryKeyNorm::none;
  sigmoid_fields(fields, model, mixed,
                 {.d_ff = 1024,
                  .count = 128,
                  .per_token = 6,
                  .scale = 2.5,
                  .count_field = {"n_routed_experts", "num_experts"},
                  .shared_field = {"n_shared_experts", "num_shared_experts"}});
}

// transformers' names of its first program.
WeightMap sarvam_moe_weight_map(const LanguageModelConfig& config) {
  const nn::LayerOptions& layer = config.decoder.first();
  const std::string ours = "decoder.layers.#.", theirs = "model.layers.#.attention.",
                    self = ours + "self_attn.";
  WeightMap map =
      with_rules({{.ours = "embed_tokens", .theirs = "model.word_embeddings", .also = tied_head(config)},
                  {self + "out_proj", theirs + "dense"},
                  {self + "q_norm", theirs + "query_layernorm"},
                  {self + "k_norm", theirs + "key_layernorm"},
                  {ours + "correction.e_score_correction_bias", "model.layers.#.mlp.gate.expert_bias"}},
                 routed_weight_map(config));
  return with_rules(concatenated(theirs + "query_key_value", Layout::same,
                                 {{self + "q_proj", layer.heads * layer.d_k},
                                  {self + "k_proj", layer.key_heads * layer.d_k},
                                  {self + "v_proj", layer.key_heads * layer.d_v}}),
                    std::move(map));
}

void sarvam_mla_table(const Fields& fields, Described<LanguageModelConfig>& model) {
  ExpertLayers mixed = routed_layers(model);
  latent_fields(fields, model, {.llama = {.max_positions = 4096}, .query_rank = 0});
  fields.expect("rope_interleave", true);
  sigmoid_fields(fields, model, mixed,
                 {.count = 128,
                  .scale = 2.5,
                  .count_field = {"n_routed_experts", "num_experts"},
                  .shared_field = {"n_shared_experts", "num_shared_experts"}});
}

void axk1_table(const Fields& fields, Described<LanguageModelConfig>& model) {
  ExpertLayers mixed = routed_layers(model);
  latent_fields(fields, model, {.llama = {.max_positions = 32768}});
  fields.require("q_lora_rank", model.layer.attention.latent.query_rank >= 1, "at least 1");
  fields.expect("rope_interleave", true);
  sigmoid_fields(fields, model, mixed,
                 {.count = 192, .groups = 8, .choices = 4, .scale = 2.5, .listed = true, .counted = true});
  for (nn::LayerOptions& layer : model.config.decoder.layers)
    layer.feed_forward_output_norm = layer.experts.count > 0;
}

// The first files have no correction of the choice.
WeightMap axk1_weight_map(const LanguageModelConfig& config) {
  return with_rules(
      {{.ours = "decoder.layers.#.correction", .theirs = "model.layers.#.mlp.gate", .optional = true},
       {"decoder.layers.#.final_output_norm", "model.layers.#.post_mlp_layernorm"}},
      routed_latent_weight_map(config));
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
          .weight_map = routed_latent_weight_map};
}

LanguageFamily deepseek_v3_family() {
  return {.model_type = "deepseek_v3",
          .classes = {{"DeepseekV3ForCausalLM"}, {"DeepseekV3Model"}},
          .base = llama_base(),
          .table = v3_table,
          .weight_map = routed_latent_weight_map};
}

LanguageFamily dots1_family() {
  return {.model_type = "dots1",
          .classes = {{"Dots1ForCausalLM"}, {"Dots1Model"}},
          .base = normed_base(),
          .table = dots1_table,
          .weight_map = routed_weight_map};
}

LanguageFamily glm4_moe_family() {
  return {.model_type = "glm4_moe",
          .classes = {{"Glm4MoeForCausalLM"}, {"Glm4MoeModel"}},
          .base = llama_base(),
          .table = glm4_moe_table,
          .weight_map = routed_weight_map};
}

LanguageFamily glm4_moe_lite_family() {
  return {.model_type = "glm4_moe_lite",
          .classes = {{"Glm4MoeLiteForCausalLM"}, {"Glm4MoeLiteModel"}},
          .base = llama_base(),
          .table = glm4_moe_lite_table,
          .weight_map = routed_latent_weight_map};
}

LanguageFamily minimax_m2_family() {
  return {.model_type = "minimax_m2",
          .classes = {{"MiniMaxM2ForCausalLM"}, {"MiniMaxM2Model"}},
          .base = minimax_m2_base(),
          .table = minimax_m2_table,
          .weight_map = minimax_m2_weight_map};
}

LanguageFamily axk1_family() {
  return {.model_type = "axk1",
          .classes = {{"AXK1ForCausalLM"}, {"AXK1Model"}},
          .base = llama_base(),
          .table = axk1_table,
          .weight_map = axk1_weight_map};
}

// transformers computes Sarvam's models by the classes of others.
LanguageFamily sarvam_moe_family() {
  return {.model_type = "sarvam_moe",
          .classes = {{"Glm4MoeForCausalLM"}, {"SarvamMoEForCausalLM"}, {"Glm4MoeModel"}},
          .base = llama_base(),
          .table = sarvam_moe_table,
          .weight_map = sarvam_moe_weight_map};
}

LanguageFamily sarvam_mla_family() {
  return {.model_type = "sarvam_mla",
          .classes = {{"DeepseekV3ForCausalLM"}, {"SarvamMLAForCausalLM"}, {"DeepseekV3Model"}},
          .base = llama_base(),
          .table = sarvam_mla_table,
          .weight_map = routed_latent_weight_map};
}

LanguageFamily solar_open_family() {
  return {.model_type = "solar_open",
          .classes = {{"SolarOpenForCausalLM"}, {"SolarOpenModel"}},
          .base = llama_base(),
          .table = solar_open_table,
          .weight_map = routed_weight_map};
}

}  // namespace qkv::models
