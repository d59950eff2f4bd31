// OPT (Zhang et al. 2022): GPT-2's blocks with separate projections; position 0 is row 2 of the table.

#include "qkv/models/hub/family.h"

namespace qkv::models {
namespace {

constexpr int64_t kFirstRow = 2;  // a constant in transformers, not a field

void table(const Fields& fields, Described<LanguageModelConfig>& model) {
  auto& [config, layer, layers] = model;
  fields("vocab_size", config.vocabulary);
  fields("max_position_embeddings", config.max_positions, 2048);
  fields("hidden_size", layer.d_model);
  fields("num_hidden_layers", layers);
  fields("num_attention_heads", layer.heads);
  fields("ffn_dim", layer.d_ff);
  fields("activation_function", layer.activation, "relu");
  fields("dropout", layer.dropout, 0.1);
  fields("attention_dropout", layer.attention_dropout, 0);
  fields("tie_word_embeddings", config.tied, true);
  fields("bos_token_id", config.bos_ids);
  fields("eos_token_id", config.eos_ids);
  fields.expect("do_layer_norm_before enable_bias layer_norm_elementwise_affine", true);
  fields.expect("_remove_final_layer_norm", false);
  fields.expect("word_embed_proj_dim", layer.d_model);
  fields.irrelevant("layerdrop init_std activation_dropout");  // of training
  config.embedding.positions.max_positions = config.max_positions + kFirstRow;
}

WeightMap weight_map(const LanguageModelConfig& config) {
  const std::string theirs = "model.decoder.", layer = theirs + "layers.#.";
  return {.rules = {{.ours = "embed_tokens", .theirs = theirs + "embed_tokens", .also = tied_head(config)},
                    {"embed_positions", theirs + "embed_positions"},
                    {"decoder.layers.#.self_attn_layer_norm", layer + "self_attn_layer_norm"},
                    {"decoder.layers.#.self_attn.q_proj", layer + "self_attn.q_proj"},
                    {"decoder.layers.#.self_attn.k_proj", layer + "self_attn.k_proj"},
                    {"decoder.layers.#.self_attn.v_proj", layer + "self_attn.v_proj"},
                    {"decoder.layers.#.self_attn.out_proj", layer + "self_attn.out_proj"},
                    {"decoder.layers.#.final_layer_norm", layer + "final_layer_norm"},
                    {"decoder.layers.#.fc1", layer + "fc1"},
                    {"decoder.layers.#.fc2", layer + "fc2"},
                    {"decoder.layer_norm", theirs + "final_layer_norm"},
                    {"lm_head", "lm_head"}},
          .prefix = "model."};
}

}  // namespace

LanguageFamily opt_family() {
  return {.model_type = "opt",
          .classes = {{"OPTForCausalLM"}, {"OPTModel"}},
          .base = {.config = {.embedding = {.positions = {.kind = nn::PositionKind::learned,
                                                          .first_row = kFirstRow}},
                              .decoder = {.final_norm = true}},
                   .layer = {.norm = nn::NormPlacement::pre}},
          .table = table,
          .weight_map = weight_map};
}

}  // namespace qkv::models
