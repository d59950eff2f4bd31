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
  bool parallel = layer.order != nn::SublayerOrder::serial;
  input_bias(fields, layer, "use_qkv_bias");
  fields("use_parallel_residual", parallel, false);
  layer.order = parallel ? nn::SublayerOrder::parallel_one_norm : nn::SublayerOrder::serial;
  fields("hidden_dropout", layer.dropout, 0);
  fields.require("head_dim", layer.d_k * layer.heads == layer.d_model, "hidden_size / num_attention_heads");
  bool normed = layer.attention.query_key_norm == nn::QueryKeyNorm::each_head;
  fields("qk_layernorm", normed, false);
  layer.attention.query_key_norm = normed ? nn::QueryKeyNorm::each_head : nn::QueryKeyNorm::none;
  fields.expect("rotary_scaling_factor", 1.0);
}

WeightMap weight_map(const LanguageModelConfig& config) {
  const std::string ours = "decoder.layers.#.self_attn.", theirs = "model.layers.#.self_attn.";
  return with_rules({{ours + "q_norm.*", theirs + "q_layernorm.norms.*"},
                     {ours + "k_norm.*", theirs + "k_layernorm.norms.*"},
                     {ours + "q_norm", theirs + "q_layernorm.norms.0"},  // the only head
                     {ours + "k_norm", theirs + "k_layernorm.norms.0"}},
                    llama_weight_map(config));
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
          .weight_map = weight_map};
}

}  // namespace qkv::models
