// OLMo (Groeneveld et al. 2024): LLaMA's layout with layer norms without parameters. OLMo 2 and 3 (Team OLMo
// 2024, 2025) and EXAONE 4 (LG AI Research 2025): LLaMA's layout with norms of the sublayers' results in
// place of those of their inputs, and norms of queries and keys.

#include "qkv/models/families/decoders/llama_family.h"

namespace qkv::models {
namespace {

constexpr float kOlmoEpsilon = 1e-5f;  // a constant in transformers, not a field

void olmo_table(const Fields& fields, Described<LanguageModelConfig>& model) {
  llama_fields(fields, model, {.epsilon = kOlmoEpsilon});
  fields.require("rms_norm_eps", model.layer.epsilon == kOlmoEpsilon, "1e-5, which is no field");
  attention_bias(fields, model.layer);
  fields.number_or_null("clip_qkv", model.layer.attention.clip, 0);
  fields.irrelevant("pretraining_tp");
}

void olmo2_table(const Fields& fields, Described<LanguageModelConfig>& model) {
  llama_fields(fields, model, {.epsilon = 1e-5});
  attention_bias(fields, model.layer);
}

// Layers with a window have rotary positions that are not scaled.
void olmo3_table(const Fields& fields, Described<LanguageModelConfig>& model) {
  const LlamaDefaults defaults{.epsilon = 1e-5, .rotary_base = 500000};
  llama_sizes(fields, model, defaults);
  attention_bias(fields, model.layer);
  sliding_window(fields, model, 4096, [](int64_t i) { return (i + 1) % 4 != 0; });
  rotary_fields_by_kind(fields, model, defaults);
}

// In models with windows, the other layers have no positions.
void exaone4_table(const Fields& fields, Described<LanguageModelConfig>& model) {
  describe_rotary_layer(fields, model);
  llama_fields(fields, model, {.key_heads = 32, .epsilon = 1e-5});
  exaone_windows(fields, model);
}

Described<LanguageModelConfig> base(nn::QueryKeyNorm norm) {
  Described<LanguageModelConfig> model = llama_base();
  model.layer.norm = nn::NormPlacement::output;
  model.layer.attention.query_key_norm = norm;
  return model;
}

}  // namespace

LanguageFamily olmo_family() {
  Described<LanguageModelConfig> model = llama_base();
  model.layer.norm_kind = nn::NormKind::layer;
  model.layer.norm_bias = model.layer.norm_weight = false;
  return {.model_type = "olmo",
          .classes = {{"OlmoForCausalLM"}, {"OlmoModel"}},
          .base = std::move(model),
          .table = olmo_table,
          .weight_map = llama_weight_map};
}

LanguageFamily olmo2_family() {
  return {.model_type = "olmo2",
          .classes = {{"Olmo2ForCausalLM"}, {"Olmo2Model"}},
          .base = base(nn::QueryKeyNorm::all_heads),
          .table = olmo2_table,
          .weight_map = output_norm_weight_map};
}

LanguageFamily olmo3_family() {
  return {.model_type = "olmo3",
          .classes = {{"Olmo3ForCausalLM"}, {"Olmo3Model"}},
          .base = base(nn::QueryKeyNorm::all_heads),
          .table = olmo3_table,
          .weight_map = output_norm_weight_map};
}

LanguageFamily exaone4_family() {
  return {.model_type = "exaone4",
          .classes = {{"Exaone4ForCausalLM"}, {"Exaone4Model"}},
          .base = base(nn::QueryKeyNorm::head),
          .table = exaone4_table,
          .weight_map = output_norm_weight_map};
}

}  // namespace qkv::models
