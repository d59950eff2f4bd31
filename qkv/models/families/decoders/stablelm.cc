// Stable LM 2 (Bellagente et al. 2024): LLaMA's layout with layer norms and a share of each head rotated; in
// some models attention and feed-forward read one norm in parallel.

#include "qkv/models/families/decoders/llama_family.h"

namespace qkv::models {
namespace {

void table(const Fields& fields, Described<LanguageModelConfig>& model) {
  llama_fields(fields, model,
               {.key_heads = 32,
                .max_positions = 4096,
                .epsilon = 1e-5,
                .rotary_share = 0.25,
                .epsilon_field = "layer_norm_eps"});
  nn::LayerOptions& layer = model.layer;
  bool bias = layer.attention.bias.query, parallel = layer.order != nn::SublayerOrder::serial;
  fields("use_qkv_bias", bias, false);
  fields("use_parallel_residual", parallel, false);
  layer.attention.bias = {.query = bias, .key = bias, .value = bias, .output = false};
  layer.order = parallel ? nn::SublayerOrder::parallel_one_norm : nn::SublayerOrder::serial;
  fields("hidden_dropout", layer.dropout, 0);
  fields.require("head_dim", layer.d_k * layer.heads == layer.d_model, "hidden_size / num_attention_heads");
  fields.expect("qk_layernorm", false);
  fields.expect("rotary_scaling_factor", 1.0);
}

Described<LanguageModelConfig> base() {
  Described<LanguageModelConfig> model = llama_base();
  model.layer.norm_kind = nn::NormKind::layer;
  return model;
}

}  // namespace

LanguageFamily stablelm_family() {
  return {.model_type = "stablelm",
          .classes = {{"StableLmForCausalLM"}, {"StableLmModel"}},
          .base = base(),
          .table = table,
          .weight_map = llama_weight_map};
}

}  // namespace qkv::models
