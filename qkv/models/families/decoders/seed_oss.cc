// Seed-OSS (ByteDance Seed 2025) and CWM (FAIR 2025): LLaMA's layout with biases of queries, keys and values,
// or with windows in three of four layers.

#include "qkv/models/families/decoders/llama_family.h"

namespace qkv::models {
namespace {

void seed_oss_table(const Fields& fields, Described<LanguageModelConfig>& model) {
  auto& [config, layer, layers] = model;
  nn::ProjectionBiases& bias = layer.attention.bias;
  llama_fields(fields, model, {.key_heads = 8, .max_positions = 524288, .head_width = 128});
  fields("attention_bias", bias.query, true);
  fields("attention_out_bias", bias.output, false);
  fields("mlp_bias", layer.feed_forward_bias, false);
  fields("residual_dropout", layer.dropout, 0.1);
  fields.irrelevant("pretraining_tp");
  bias.key = bias.value = bias.query;
}

void cwm_table(const Fields& fields, Described<LanguageModelConfig>& model) {
  llama_fields(
      fields, model,
      {.key_heads = 8, .max_positions = 131072, .head_width = 128, .epsilon = 1e-5, .rotary_base = 1e6});
  // Without either, transformers scales as the first model of the family.
  fields.require("rope_parameters", !fields.absent("rope_parameters") || !fields.absent("rope_scaling"),
                 "an object");
  fields("mlp_bias", model.layer.feed_forward_bias, false);
  fields.expect("attention_bias", false);
  fields.irrelevant("pretraining_tp");
  sliding_window(fields, model, 8192, [](int64_t i) { return i % 4 != 0; });
}

}  // namespace

LanguageFamily seed_oss_family() {
  return {.model_type = "seed_oss",
          .classes = {{"SeedOssForCausalLM"}, {"SeedOssModel"}},
          .base = llama_base(),
          .table = seed_oss_table,
          .weight_map = llama_weight_map};
}

LanguageFamily cwm_family() {
  return {.model_type = "cwm",
          .classes = {{"CwmForCausalLM"}, {"CwmModel"}},
          .base = llama_base(),
          .table = cwm_table,
          .weight_map = llama_weight_map};
}

}  // namespace qkv::models
