// Falcon (Almazrouei et al. 2023): one key head, or groups of heads stored beside their key and value;
// attention and feed-forward in parallel, with one norm or two, or one after the other. Falcon-RW has ALiBi.

#include "qkv/models/families/gpt/megatron_family.h"

namespace qkv::models {
namespace {

using Order = nn::SublayerOrder;

void order_fields(const Fields& fields, nn::LayerOptions& layer) {
  const bool two = layer.order == Order::parallel;
  bool single = layer.key_heads == 1, parallel = layer.order != Order::serial;
  bool grouped = two || (parallel && !single && layer.key_heads != layer.heads);
  fields("new_decoder_architecture", grouped, false);
  fields("multi_query", single, true);
  fields("parallel_attn", parallel, true);
  int64_t norms = two ? 2 : 1, key_heads = layer.key_heads;
  fields("num_ln_in_parallel_attn", norms, grouped ? 2 : 1);
  fields("num_kv_heads", key_heads, layer.heads);
  fields.require("num_kv_heads", grouped || single || key_heads == layer.heads, "num_attention_heads");
  fields.require("num_ln_in_parallel_attn", norms == 1 || (norms == 2 && grouped), grouped ? "1 or 2" : "1");
  fields.require("parallel_attn", parallel || !grouped, "true, as new_decoder_architecture is");
  layer.key_heads = single && !grouped ? 1 : key_heads;
  layer.order = !parallel ? Order::serial : norms == 2 ? Order::parallel : Order::parallel_one_norm;
}

void table(const Fields& fields, Described<LanguageModelConfig>& model) {
  auto& [config, layer, layers] = model;
  fields("vocab_size", config.vocabulary);
  fields({"hidden_size", "n_embed"}, layer.d_model);
  fields("num_hidden_layers", layers);
  fields("num_attention_heads", layer.heads);
  fields("ffn_hidden_size", layer.d_ff, 4 * layer.d_model);
  fields("activation", layer.activation, "gelu");
  fields("layer_norm_epsilon", layer.epsilon, 1e-5);
  fields("hidden_dropout", layer.dropout, 0);
  fields("attention_dropout", layer.attention_dropout, 0);
  fields("bias", layer.feed_forward_bias, false);
  fields("tie_word_embeddings", config.tied, true);
  fields("bos_token_id", config.bos_ids);
  fields("eos_token_id", config.eos_ids);
  layer.attention.bias = nn::ProjectionBiases::all(layer.feed_forward_bias);
  layer.d_k = layer.d_v = layer.heads > 0 ? layer.d_model / layer.heads : 0;
  order_fields(fields, layer);
  nn::PositionOptions& positions = layer.attention.positions;
  bool alibi = positions.kind == nn::PositionKind::alibi;
  fields("alibi", alibi, false);
  position_fields(fields, model);
  // Once, as in transformers' default implementation of attention. Its other one adds the biases twice, and
  // both round them to bf16.
  if (alibi) positions = {.kind = nn::PositionKind::alibi, .alibi_scaled = true};
  fields.irrelevant("ff_factor");  // ffn_hidden_size / hidden_size
  fields.expect("apply_residual_connection_post_layernorm", false);
}

WeightMap weight_map(const LanguageModelConfig& config) {
  const nn::LayerOptions& layer = config.decoder.first();
  WeightMap map = megatron_weight_map(config, layer.key_heads == 0 ? layer.heads : layer.key_heads);
  if (layer.order != Order::parallel) return map;
  return with_rules({{"decoder.layers.#.self_attn_layer_norm", "transformer.h.#.ln_attn"},
                     {"decoder.layers.#.final_layer_norm", "transformer.h.#.ln_mlp"}},
                    std::move(map));
}

}  // namespace

LanguageFamily falcon_family() {
  return {.model_type = "falcon",
          .classes = {{"FalconForCausalLM"}, {"FalconModel"}},
          .base = biased_base(),
          .table = table,
          .weight_map = weight_map};
}

}  // namespace qkv::models
