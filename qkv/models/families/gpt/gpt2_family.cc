#include "qkv/models/families/gpt/gpt2_family.h"

namespace qkv::models {

void gpt2_fields(const Fields& fields, Described<LanguageModelConfig>& model, const Gpt2Defaults& defaults) {
  auto& [config, layer, layers] = model;
  fields("vocab_size", config.vocabulary);
  fields("n_positions", config.max_positions);
  fields("n_embd", layer.d_model);
  fields("n_layer", layers);
  fields("n_head", layer.heads);
  fields("n_inner", layer.d_ff, 4 * layer.d_model);
  fields("activation_function", layer.activation, defaults.activation);
  fields("layer_norm_epsilon", layer.epsilon, 1e-5);
  fields("resid_pdrop", layer.dropout, defaults.dropout);
  fields("embd_pdrop", config.embedding.dropout, defaults.dropout);
  fields("attn_pdrop", layer.attention_dropout, defaults.dropout);
  fields("tie_word_embeddings", config.tied, defaults.tied);
  fields("bos_token_id", config.bos_ids);
  fields("eos_token_id", config.eos_ids);
  fields.expect("scale_attn_weights", true);
  // n_ctx repeats n_positions; summaries belong to a head that is not implemented.
  fields.irrelevant(
      "n_special predict_special_tokens n_ctx summary_activation summary_first_dropout summary_type "
      "summary_use_proj summary_proj_to_labels");
  config.embedding.positions.max_positions = config.max_positions;
}

WeightMap gpt2_weight_map(const LanguageModelConfig& config, Layout layout) {
  const std::string ours = "decoder.layers.#.", theirs = "transformer.h.#.";
  return {
      .rules = {{.ours = "embed_tokens", .theirs = "transformer.wte", .also = tied_head(config)},
                {"embed_positions", "transformer.wpe"},
                {ours + "self_attn_layer_norm", theirs + "ln_1"},
                {ours + "self_attn.out_proj", theirs + "attn.c_proj", layout},
                {ours + "final_layer_norm", theirs + "ln_2"},
                {ours + "fc1", theirs + "mlp.c_fc", layout},
                {ours + "fc2", theirs + "mlp.c_proj", layout},
                {"decoder.layer_norm", "transformer.ln_f"},
                {"lm_head", "lm_head"}},
      .prefix = "transformer.",
      .computed = {".attn.bias", ".attn.masked_bias", "attn.attention.bias", "attn.attention.masked_bias"}};
}

Described<LanguageModelConfig> gpt2_base() {
  return {.config = {.embedding = {.positions = {.kind = nn::PositionKind::learned}},
                     .decoder = {.final_norm = true}},
          .layer = {.norm = nn::NormPlacement::pre}};
}

}  // namespace qkv::models
