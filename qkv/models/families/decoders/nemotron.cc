// Models with squared ReLU and no gate: Nemotron 4 (NVIDIA 2024), whose files store a layer norm's weight -
// 1, AFM (Arcee 2025), Jais 2 (MBZUAI 2025), nanochat (Karpathy 2025) and Persimmon (Adept 2023), whose
// queries, keys and values are fused head by head.

#include "qkv/models/families/gpt/megatron_family.h"

namespace qkv::models {
namespace {

LlamaDefaults squared(int64_t max_positions, const char* epsilon_field) {
  return {
      .max_positions = max_positions, .epsilon = 1e-5, .activation = "relu2", .epsilon_field = epsilon_field};
}

void bias_fields(const Fields& fields, nn::LayerOptions& layer, bool otherwise) {
  attention_bias(fields, layer, otherwise);
  fields("mlp_bias", layer.feed_forward_bias, otherwise);
}

void nemotron_table(const Fields& fields, Described<LanguageModelConfig>& model) {
  LlamaDefaults defaults = squared(4096, "norm_eps");
  defaults.rotary_share = 0.5;
  llama_fields(fields, model, defaults);
  bias_fields(fields, model.layer, false);
}

void arcee_table(const Fields& fields, Described<LanguageModelConfig>& model) {
  llama_fields(fields, model, squared(4096, "rms_norm_eps"));
  bias_fields(fields, model.layer, false);
}

void jais2_table(const Fields& fields, Described<LanguageModelConfig>& model) {
  llama_fields(fields, model, squared(8192, "layer_norm_eps"));
  bias_fields(fields, model.layer, true);
}

// nanochat (Karpathy 2025): no norm has a weight, and the embeddings and rotated heads have one; it rotates
// backwards.
void nanochat_table(const Fields& fields, Described<LanguageModelConfig>& model) {
  LlamaDefaults defaults = squared(2048, "rms_norm_eps");
  defaults.epsilon = 1e-6;
  llama_fields(fields, model, defaults);
  attention_bias(fields, model.layer);
  fields.number_or_null("final_logit_softcapping", model.config.logit_softcap, 15);
  model.config.embedding.epsilon = model.layer.epsilon;
}

void persimmon_table(const Fields& fields, Described<LanguageModelConfig>& model) {
  LlamaDefaults defaults = squared(16384, "layer_norm_eps");
  defaults.rotary_share = 0.5;
  llama_fields(fields, model, defaults);
  require_usual_heads(fields, model.layer);
  query_key_layer_norm(fields, model.layer, true);
  fields("hidden_dropout", model.layer.dropout, 0);
}

WeightMap nemotron_map(const LanguageModelConfig& config) {
  WeightMap map = llama_weight_map(config);
  for (WeightRule& rule : map.rules) rule.minus_one = rule.ours.ends_with("norm");
  return map;
}

WeightMap nanochat_map(const LanguageModelConfig& config) {
  return with_rules({{"decoder.layers.#.fc1", "model.layers.#.mlp.fc1"},
                     {"decoder.layers.#.fc2", "model.layers.#.mlp.fc2"}},
                    llama_weight_map(config));
}

WeightMap persimmon_map(const LanguageModelConfig& config) {
  return with_query_key_layer_norm(megatron_weight_map(config, config.decoder.first().heads,
                                                       {.model = "model",
                                                        .layers = "layers",
                                                        .attention = "self_attn",
                                                        .table = "embed_tokens",
                                                        .final_norm = "final_layernorm"}));
}

Described<LanguageModelConfig> without_gate(Described<LanguageModelConfig> model) {
  model.layer.gated = false;
  return model;
}

}  // namespace

LanguageFamily nemotron_family() {
  return {.model_type = "nemotron",
          .classes = {{"NemotronForCausalLM"}, {"NemotronModel"}},
          .base = biased_base(),
          .table = nemotron_table,
          .weight_map = nemotron_map};
}

LanguageFamily arcee_family() {
  return {.model_type = "arcee",
          .classes = {{"ArceeForCausalLM"}, {"ArceeModel"}},
          .base = without_gate(llama_base()),
          .table = arcee_table,
          .weight_map = llama_weight_map};
}

LanguageFamily jais2_family() {
  return {.model_type = "jais2",
          .classes = {{"Jais2ForCausalLM"}, {"Jais2Model"}},
          .base = biased_base(),
          .table = jais2_table,
          .weight_map = llama_weight_map};
}

LanguageFamily nanochat_family() {
  Described<LanguageModelConfig> model = without_gate(llama_base());
  model.layer.norm_weight = model.config.embedding.norm_weight = false;
  model.config.embedding.norm = true;
  model.config.embedding.norm_kind = nn::NormKind::rms;
  model.layer.attention.query_key_norm = nn::QueryKeyNorm::rotated_head;
  model.layer.attention.positions.rotary_backwards = true;
  return {.model_type = "nanochat",
          .classes = {{"NanoChatForCausalLM"}, {"NanoChatModel"}},
          .base = std::move(model),
          .table = nanochat_table,
          .weight_map = nanochat_map};
}

LanguageFamily persimmon_family() {
  return {.model_type = "persimmon",
          .classes = {{"PersimmonForCausalLM"}, {"PersimmonModel"}},
          .base = biased_base(),
          .table = persimmon_table,
          .weight_map = persimmon_map};
}

}  // namespace qkv::models
