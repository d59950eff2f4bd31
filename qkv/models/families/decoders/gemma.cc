// Gemma, Gemma 2 and Gemma 3 (Gemma Team 2024, 2024, 2025): LLaMA's layout with scaled embeddings and with
// norms stored as weight - 1; later also with norms of the sublayers' results, soft caps and windows.
// transformers rounds the factor of the embeddings to the dtype of the weights; here it is f32, as all
// numbers of a run.

#include <cmath>

#include "qkv/models/families/decoders/llama_family.h"

namespace qkv::models {
namespace {

Described<LanguageModelConfig> base(nn::NormPlacement norm) {
  Described<LanguageModelConfig> model = llama_base();
  model.layer.norm = norm;
  return model;
}

void scale_embeddings(Described<LanguageModelConfig>& model) {
  model.config.embedding.factor = std::sqrt(static_cast<float>(model.layer.d_model));
}

// "query_pre_attn_scalar" s: the factor of the scores is 1 / sqrt(s).
void score_scale(const Fields& fields, nn::LayerOptions& layer) {
  std::optional<float>& scale = layer.attention.scale;
  int64_t scalar = scale ? std::llround(1.0 / *scale / *scale) : layer.d_k;
  fields("query_pre_attn_scalar", scalar, 256);
  fields.require("query_pre_attn_scalar", scalar >= 1, "at least 1");
  scale.reset();
  if (scalar >= 1 && scalar != layer.d_k)
    scale = static_cast<float>(1 / std::sqrt(static_cast<double>(scalar)));
}

void gemma_table(const Fields& fields, Described<LanguageModelConfig>& model) {
  Activation& activation = model.layer.activation;
  llama_fields(fields, model,
               {.key_heads = 16,
                .max_positions = 8192,
                .head_width = 256,
                .tied = true,
                .activation = "gelu_pytorch_tanh"});
  scale_embeddings(model);
  attention_bias(fields, model.layer);
  fields.expect("use_bidirectional_attention", false);
  // The first folders have "gelu", by which transformers means the approximation, too; later ones both
  // fields.
  if (activation == Activation::gelu_exact) activation = Activation::gelu_tanh;
  fields.expect("hidden_activation", "gelu_pytorch_tanh");
}

void gemma2_table(const Fields& fields, Described<LanguageModelConfig>& model) {
  auto& [config, layer, layers] = model;
  llama_fields(fields, model,
               {.key_heads = 4,
                .max_positions = 8192,
                .head_width = 256,
                .tied = true,
                .activation_field = "hidden_activation",
                .activation = "gelu_pytorch_tanh"});
  attention_bias(fields, layer);
  scale_embeddings(model);
  score_scale(fields, layer);
  fields.number_or_null("attn_logit_softcapping", layer.attention.softcap, 50);
  fields.number_or_null("final_logit_softcapping", config.logit_softcap, 30);
  fields.expect("use_bidirectional_attention", false);
  sliding_window(fields, model, 4096, [](int64_t i) { return i % 2 == 0; });
  fields.irrelevant("hidden_act cache_implementation sliding_window_size");  // not read by transformers
}

WeightMap weight_map(const LanguageModelConfig& config) {
  WeightMap map = llama_weight_map(config);
  if (config.decoder.first().norm == nn::NormPlacement::both) {
    map = with_rules({{"decoder.layers.#.self_attn_output_norm", "model.layers.#.post_attention_layernorm"},
                      {"decoder.layers.#.final_layer_norm", "model.layers.#.pre_feedforward_layernorm"},
                      {"decoder.layers.#.final_output_norm", "model.layers.#.post_feedforward_layernorm"}},
                     std::move(map));
  }
  for (WeightRule& rule : map.rules) rule.minus_one = rule.ours.ends_with("norm");
  return map;
}

}  // namespace

LanguageFamily gemma_family() {
  return {.model_type = "gemma",
          .classes = {{"GemmaForCausalLM"}, {"GemmaModel"}},
          .base = base(nn::NormPlacement::pre),
          .table = gemma_table,
          .weight_map = weight_map};
}

LanguageFamily gemma2_family() {
  return {.model_type = "gemma2",
          .classes = {{"Gemma2ForCausalLM"}, {"Gemma2Model"}},
          .base = base(nn::NormPlacement::both),
          .table = gemma2_table,
          .weight_map = weight_map};
}

}  // namespace qkv::models
