// Gemma, Gemma 2 and Gemma 3 (Gemma Team 2024, 2024, 2025): LLaMA's layout with scaled embeddings and with
// norms stored as weight - 1; later also with norms of the sublayers' results, soft caps and windows.
// VaultGemma (Sinha et al. 2025) is Gemma 2 without these norms of results.

#include <cmath>
#include <functional>

#include "qkv/models/families/decoders/llama_family.h"

namespace qkv::models {
namespace {

Described<LanguageModelConfig> base(nn::NormPlacement norm) {
  Described<LanguageModelConfig> model = llama_base();
  model.layer.norm = norm;
  return model;
}

// The factor of the embeddings. transformers rounds it to the dtype of the weights; here it is f32, as all
// numbers of a run.
void embedding_factor(Described<LanguageModelConfig>& model) {
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
  embedding_factor(model);
  attention_bias(fields, model.layer);
  fields.expect("use_bidirectional_attention", false);
  // The first folders have "gelu", by which transformers means the approximation, too; later ones both
  // fields.
  if (activation == Activation::gelu_exact) activation = Activation::gelu_tanh;
  fields.expect("hidden_activation", "gelu_pytorch_tanh");
}

LlamaDefaults defaults(int64_t max_positions, double rotary_base) {
  return {.key_heads = 4,
          .max_positions = max_positions,
          .head_width = 256,
          .rotary_base = rotary_base,
          .tied = true,
          .activation_field = "hidden_activation",
          .activation = "gelu_pytorch_tanh"};
}

// What Gemma 2 and 3 have in common, beside the sizes.
void later_fields(const Fields& fields, Described<LanguageModelConfig>& model, double logit_softcap) {
  embedding_factor(model);
  attention_bias(fields, model.layer);
  score_scale(fields, model.layer);
  fields.number_or_null("final_logit_softcapping", model.config.logit_softcap, logit_softcap);
  // transformers reads none of these.
  fields.irrelevant("_sliding_window_pattern hidden_act sliding_window_size");
}

void gemma2_table(const Fields& fields, Described<LanguageModelConfig>& model) {
  llama_fields(fields, model, defaults(8192, 1e4));
  later_fields(fields, model, 30);
  fields.expect("use_bidirectional_attention", false);
  fields.number_or_null("attn_logit_softcapping", model.layer.attention.softcap, 50);
  sliding_window(fields, model, 4096, [](int64_t i) { return i % 2 == 0; });
}

void each_window(nn::StackOptions& stack, const std::function<int64_t(int64_t)>& change) {
  stack.each([&](nn::LayerOptions& layer) {
    if (layer.attention.window > 0) layer.attention.window = change(layer.attention.window);
  });
}

void gemma3_table(const Fields& fields, Described<LanguageModelConfig>& model) {
  // EmbeddingGemma attends in both directions: half of the window's w keys to each side.
  nn::StackOptions& stack = model.config.decoder;
  bool both = !model.config.causal;
  fields("use_bidirectional_attention", both, false);
  model.config.causal = !both;
  if (both && !fields.reads()) each_window(stack, [](int64_t near) { return 2 * (near - 1); });
  llama_sizes(fields, model, defaults(131072, 1e6));
  later_fields(fields, model, 0);
  fields.number_or_null("attn_logit_softcapping", model.layer.attention.softcap, 0);
  fields.require("attn_logit_softcapping", model.layer.attention.softcap == 0, "null");
  int64_t interval = 6;  // every 6th layer has no window
  if (fields.reads()) fields({"sliding_window_pattern", "_sliding_window_pattern"}, interval, interval);
  fields.require("sliding_window_pattern", interval >= 1, "at least 1");
  sliding_window(fields, model, 4096, [&](int64_t i) { return (i + 1) % interval != 0; });
  rotary_fields_by_kind(fields, model, defaults(131072, 1e6), "rope_local_base_freq", 1e4);
  if (both && fields.reads()) each_window(stack, [](int64_t window) { return window / 2 + 1; });
}

WeightMap minus_one(WeightMap map) {
  for (WeightRule& rule : map.rules) rule.minus_one = rule.ours.ends_with("norm");
  return map;
}

WeightMap gemma_weight_map(const LanguageModelConfig& config) { return minus_one(llama_weight_map(config)); }

WeightMap later_weight_map(const LanguageModelConfig& config) {
  return minus_one(output_norm_weight_map(config));
}

}  // namespace

LanguageFamily gemma_family() {
  return {.model_type = "gemma",
          .classes = {{"GemmaForCausalLM"}, {"GemmaModel"}},
          .base = base(nn::NormPlacement::pre),
          .table = gemma_table,
          .weight_map = gemma_weight_map};
}

LanguageFamily gemma2_family() {
  return {.model_type = "gemma2",
          .classes = {{"Gemma2ForCausalLM"}, {"Gemma2Model"}},
          .base = base(nn::NormPlacement::both),
          .table = gemma2_table,
          .weight_map = later_weight_map};
}

LanguageFamily vaultgemma_family() {
  return {.model_type = "vaultgemma",
          .classes = {{"VaultGemmaForCausalLM"}, {"VaultGemmaModel"}},
          .base = base(nn::NormPlacement::pre),
          .table = gemma2_table,
          .weight_map = later_weight_map};
}

LanguageFamily gemma3_family() {
  Described<LanguageModelConfig> model = base(nn::NormPlacement::both);
  model.layer.attention.query_key_norm = nn::QueryKeyNorm::head;
  return {.model_type = "gemma3_text",
          .classes = {{"Gemma3ForCausalLM"}, {"Gemma3TextModel"}},
          .base = std::move(model),
          .table = gemma3_table,
          .weight_map = later_weight_map};
}

}  // namespace qkv::models
