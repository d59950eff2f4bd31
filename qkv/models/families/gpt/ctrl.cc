// CTRL (Keskar et al. 2019): pre-norm blocks with ReLU after scaled embeddings and sinusoids; logits have a
// bias.

#include <cmath>

#include "qkv/models/families/gpt/gpt2_family.h"

namespace qkv::models {
namespace {

constexpr float kEpsilon = 1e-6f;  // of the layers' norms: a constant in transformers

void table(const Fields& fields, Described<LanguageModelConfig>& model) {
  auto& [config, layer, layers] = model;
  fields("vocab_size", config.vocabulary);
  fields("n_positions", config.max_positions, 256);
  fields("n_embd", layer.d_model);
  fields("n_layer", layers);
  fields("n_head", layer.heads);
  fields("dff", layer.d_ff);
  fields("layer_norm_epsilon", layer.epsilon, 1e-6);
  fields.require("layer_norm_epsilon", layer.epsilon == kEpsilon, "1e-06, which the layers have");
  fields("resid_pdrop", layer.dropout, 0.1);
  fields("embd_pdrop", config.embedding.dropout, 0.1);
  fields("tie_word_embeddings", config.tied, true);
  fields("bos_token_id", config.bos_ids);
  fields("eos_token_id", config.eos_ids);
  fields.irrelevant(
      "n_ctx attn_pdrop from_tf summary_activation summary_first_dropout summary_type summary_use_proj "
      "summary_proj_to_labels");
  config.embedding.factor = std::sqrt(static_cast<float>(layer.d_model));
}

WeightMap weight_map(const LanguageModelConfig& config) {
  const std::string ours = "decoder.layers.#.", theirs = "transformer.h.#.";
  const std::string attention = theirs + "multi_head_attention.";
  return {.rules = {{.ours = "embed_tokens", .theirs = "transformer.w", .also = tied_head(config)},
                    {ours + "self_attn_layer_norm", theirs + "layernorm1"},
                    {ours + "self_attn.q_proj", attention + "Wq"},
                    {ours + "self_attn.k_proj", attention + "Wk"},
                    {ours + "self_attn.v_proj", attention + "Wv"},
                    {ours + "self_attn.out_proj", attention + "dense"},
                    {ours + "final_layer_norm", theirs + "layernorm2"},
                    {ours + "fc1", theirs + "ffn.0"},
                    {ours + "fc2", theirs + "ffn.2"},
                    {"decoder.layer_norm", "transformer.layernorm"},
                    {"lm_head", "lm_head"}},
          .prefix = "transformer."};
}

}  // namespace

LanguageFamily ctrl_family() {
  return {.model_type = "ctrl",
          .classes = {{"CTRLLMHeadModel"}, {"CTRLModel"}},
          .base = {.config = {.embedding = {.positions = {.kind = nn::PositionKind::sinusoidal_halves}},
                              .decoder = {.final_norm = true},
                              .logit_bias = true},
                   .layer = {.norm = nn::NormPlacement::pre}},
          .table = table,
          .weight_map = weight_map};
}

}  // namespace qkv::models
