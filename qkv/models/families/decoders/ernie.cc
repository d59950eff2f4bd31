// ERNIE 4.5 (Baidu 2025) and Helium (Kyutai 2025): LLaMA's layout, with rotary pairs side by side.

#include "qkv/models/families/decoders/llama_family.h"

namespace qkv::models {
namespace {

void ernie_table(const Fields& fields, Described<LanguageModelConfig>& model) {
  llama_fields(fields, model,
               {.key_heads = 2,
                .max_positions = 131072,
                .head_width = 128,
                .epsilon = 1e-5,
                .rotary_base = 500000,
                .tied = true});
  fields("use_bias", model.layer.feed_forward_bias, false);
  model.layer.attention.bias = nn::ProjectionBiases::all(model.layer.feed_forward_bias);
}

void helium_table(const Fields& fields, Described<LanguageModelConfig>& model) {
  nn::LayerOptions& layer = model.layer;
  llama_fields(
      fields, model,
      {.key_heads = 20, .max_positions = 4096, .head_width = 128, .epsilon = 1e-8, .rotary_base = 100000});
  fields.require("head_dim", layer.d_k * layer.heads == layer.d_model, "hidden_size / num_attention_heads");
  input_bias(fields, layer);
  fields("mlp_bias", layer.feed_forward_bias, false);
}

WeightMap weight_map(const LanguageModelConfig& config) {
  return with_pairs(llama_weight_map(config), config);
}

}  // namespace

LanguageFamily ernie4_5_family() {
  return {.model_type = "ernie4_5",
          .classes = {{"Ernie4_5ForCausalLM"}, {"Ernie4_5Model"}},
          .base = llama_base(),
          .table = ernie_table,
          .weight_map = weight_map};
}

LanguageFamily helium_family() {
  return {.model_type = "helium",
          .classes = {{"HeliumForCausalLM"}, {"HeliumModel"}},
          .base = llama_base(),
          .table = helium_table,
          .weight_map = weight_map};
}

}  // namespace qkv::models
