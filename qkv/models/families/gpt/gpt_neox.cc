// GPT-NeoX (Black et al. 2022) and Pythia: attention and feed-forward in parallel, each with its own norm, a
// share of each head rotated, and queries, keys and values fused head by head. The Japanese one (ABEJA 2022)
// has sublayers one after the other, and no biases but the norms' and one of the last attention's results.

#include "qkv/models/families/gpt/megatron_family.h"

namespace qkv::models {
namespace {

void table(const Fields& fields, Described<LanguageModelConfig>& model) {
  llama_fields(fields, model,
               {.epsilon = 1e-5,
                .activation = "gelu",
                .rotary_share = 0.25,
                .epsilon_field = "layer_norm_eps",
                .share_field = {"partial_rotary_factor", "rotary_pct"},
                .base_field = {"rope_theta", "rotary_emb_base"}});
  nn::LayerOptions& layer = model.layer;
  require_usual_heads(fields, layer);
  bool parallel = layer.order != nn::SublayerOrder::serial, bias = layer.attention.bias.query;
  fields("use_parallel_residual", parallel, true);
  fields("attention_bias", bias, true);
  layer.order = parallel ? nn::SublayerOrder::parallel : nn::SublayerOrder::serial;
  layer.attention.bias = nn::ProjectionBiases::all(bias);
  fields("hidden_dropout", layer.dropout, 0);
  model.config.embedding.dropout = layer.dropout;
  fields.irrelevant("classifier_dropout is_decoder hidden_dropout_prob attention_probs_dropout_prob");
}

void japanese_table(const Fields& fields, Described<LanguageModelConfig>& model) {
  auto& [config, layer, layers] = model;
  int64_t multiple = layer.d_model > 0 ? layer.d_ff / layer.d_model : 4;
  fields("vocab_size", config.vocabulary);
  fields("hidden_size", layer.d_model);
  fields("num_hidden_layers", layers);
  fields("num_attention_heads", layer.heads);
  fields("intermediate_multiple_size", multiple, 4);
  fields("hidden_act", layer.activation, "gelu");
  fields("layer_norm_eps", layer.epsilon, 1e-5);
  fields("attention_dropout", layer.attention_dropout, 0.1);
  fields("hidden_dropout", layer.dropout, 0);
  fields("tie_word_embeddings", config.tied, true);
  fields("bos_token_id", config.bos_ids);
  fields("eos_token_id", config.eos_ids);
  layer.d_ff = multiple * layer.d_model;
  if (fields.reads() && layer.heads > 0) layer.d_k = layer.d_v = layer.d_model / layer.heads;
  position_fields(fields, model,
                  {.rotary_share = 1,
                   .share_field = {"partial_rotary_factor", "rotary_pct"},
                   .base_field = {"rope_theta", "rotary_emb_base"}});
  fields.irrelevant("is_decoder");
  if (!fields.reads()) return;
  config.decoder.layers = nn::alike(layers, layer);
  if (layers > 0) config.decoder.layers.back().attention.bias.output = true;
}

MegatronNames names(const std::string& model) {
  return {.model = model,
          .layers = "layers",
          .attention = "attention",
          .table = "embed_in",
          .final_norm = "final_layer_norm",
          .head = "embed_out"};
}

WeightMap weight_map(const LanguageModelConfig& config) {
  return megatron_weight_map(config, config.decoder.first().heads, names("gpt_neox"));
}

WeightMap japanese_weight_map(const LanguageModelConfig& config) {
  const std::string model = "gpt_neox_japanese";
  return with_rules({{"decoder.layers.#.self_attn.out_proj.bias", model + ".layers.#.attention.dense_bias"}},
                    megatron_weight_map(config, config.decoder.first().heads, names(model)));
}

Described<LanguageModelConfig> japanese_base() {
  Described<LanguageModelConfig> model = biased_base();
  model.layer.feed_forward_bias = false;
  model.layer.attention.bias = nn::ProjectionBiases::all(false);
  return model;
}

}  // namespace

LanguageFamily gpt_neox_family() {
  return {.model_type = "gpt_neox",
          .classes = {{"GPTNeoXForCausalLM"}, {"GPTNeoXModel"}},
          .base = biased_base(),
          .table = table,
          .weight_map = weight_map};
}

LanguageFamily gpt_neox_japanese_family() {
  return {.model_type = "gpt_neox_japanese",
          .classes = {{"GPTNeoXJapaneseForCausalLM"}, {"GPTNeoXJapaneseModel"}},
          .base = japanese_base(),
          .table = japanese_table,
          .weight_map = japanese_weight_map};
}

}  // namespace qkv::models
