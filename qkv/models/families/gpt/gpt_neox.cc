// GPT-NeoX (Black et al. 2022) and Pythia: attention and feed-forward in parallel, each with its own norm, a
// share of each head rotated, and queries, keys and values fused head by head.

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

WeightMap weight_map(const LanguageModelConfig& config) {
  return megatron_weight_map(config, config.decoder.first().heads,
                             {.model = "gpt_neox",
                              .layers = "layers",
                              .attention = "attention",
                              .table = "embed_in",
                              .final_norm = "final_layer_norm",
                              .head = "embed_out"});
}

}  // namespace

LanguageFamily gpt_neox_family() {
  return {.model_type = "gpt_neox",
          .classes = {{"GPTNeoXForCausalLM"}, {"GPTNeoXModel"}},
          .base = biased_base(),
          .table = table,
          .weight_map = weight_map};
}

}  // namespace qkv::models
