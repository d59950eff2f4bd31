// ModernBERT (Warner et al. 2024): pre-norm blocks with rotary positions, a gated feed-forward, and a window
// in two of three layers; the norm of the embeddings is that of the first self-attention. Heads have a layer,
// an activation and a norm.

#include "qkv/models/families/decoders/llama_family.h"

namespace qkv::models {
namespace {

void stack_fields(const Fields& fields, Described<LanguageModelConfig>& model) {
  // A window of w tokens has w / 2 to each side.
  int64_t tokens = 2 * (window_of(model.config) - 1), interval = 3;
  if (!fields.reads() && tokens < 0) tokens = 128;
  fields("local_attention", tokens, 128);
  fields.require("local_attention", tokens >= 2, "at least 2");
  if (fields.reads()) fields("global_attn_every_n_layers", interval, interval);
  fields.require("global_attn_every_n_layers", interval >= 1, "at least 1");
  layer_types(fields, model, tokens / 2 + 1, [&](int64_t i) { return i % interval != 0; });
  rotary_fields_by_kind(fields, model,
                        {.max_positions = 8192, .rotary_base = 160000, .base_field = "global_rope_theta"},
                        "local_rope_theta", 10000);
  if (!model.config.decoder.layers.empty()) model.config.decoder.layers.front().attention_norm = false;
}

void table(const Fields& fields, Described<TextEncoderConfig>& model) {
  auto& [config, layer, layers] = model;
  fields("vocab_size", config.vocabulary);
  fields("hidden_size", layer.d_model);
  fields("intermediate_size", layer.d_ff);
  fields("num_hidden_layers", layers);
  fields("num_attention_heads", layer.heads);
  fields("hidden_activation", layer.activation, "gelu");
  fields("norm_eps", layer.epsilon, 1e-5);
  fields("norm_bias", layer.norm_bias, false);
  attention_bias(fields, layer);
  fields("mlp_bias", layer.feed_forward_bias, false);
  fields("attention_dropout", layer.attention_dropout, 0);
  fields("mlp_dropout", layer.activation_dropout, 0);
  fields("embedding_dropout", config.embedding.dropout, 0);
  fields("classifier_activation", config.pooler_activation, "gelu");
  fields("classifier_bias", config.head_bias, false);
  fields("decoder_bias", config.logit_bias, true);
  std::string pooling = config.pools_mean ? "mean" : "cls";
  fields("classifier_pooling", pooling, "cls");
  fields.require("classifier_pooling", pooling == "cls" || pooling == "mean", "cls or mean");
  config.pools_mean = pooling == "mean";
  fields.expect("tie_word_embeddings", true);
  fields.irrelevant(
      "classifier_dropout cls_token_id deterministic_flash_attn initializer_cutoff_factor layer_norm_eps "
      "position_embedding_type reference_compile repad_logits_with_grad sep_token_id "
      "sparse_pred_ignore_index "
      "sparse_prediction");
  config.masked_language_activation = config.pooler_activation;
  config.embedding.epsilon = layer.epsilon;
  config.embedding.norm_bias = layer.norm_bias;
  Described<LanguageModelConfig> decoder = as_decoder(model);
  stack_fields(fields, decoder);
  read_decoder(decoder, model);
}

WeightMap weight_map(const TextEncoderConfig& config) {
  const std::string ours = "encoder.layers.#.", theirs = "model.layers.#.";
  const int64_t d = config.embedding.d_model, d_ff = config.encoder.first().d_ff;
  WeightMap map{.rules = {{.ours = "embed_tokens", .theirs = "model.embeddings.tok_embeddings"},
                          {"embed_layer_norm", "model.embeddings.norm"},
                          {ours + "self_attn_layer_norm", theirs + "attn_norm"},
                          {ours + "self_attn.out_proj", theirs + "attn.Wo"},
                          {ours + "final_layer_norm", theirs + "mlp_norm"},
                          {ours + "fc2", theirs + "mlp.Wo"},
                          {"encoder.layer_norm", "model.final_norm"},
                          {"pooler", "head.dense"},
                          {"pooler.layer_norm", "head.norm"},
                          {"masked_language.dense", "head.dense"},
                          {"masked_language.layer_norm", "head.norm"},
                          {"masked_language", "decoder"},
                          {"classifier", "classifier"}},
                .prefix = "model."};
  if (config.masked_language) map.rules.front().also = {"decoder"};
  map =
      with_rules(concatenated(theirs + "mlp.Wi", Layout::same, {{ours + "gate", d_ff}, {ours + "fc1", d_ff}}),
                 std::move(map));
  return with_rules(
      concatenated(
          theirs + "attn.Wqkv", Layout::same,
          {{ours + "self_attn.q_proj", d}, {ours + "self_attn.k_proj", d}, {ours + "self_attn.v_proj", d}}),
      std::move(map));
}

EncoderFamily with_base(EncoderFamily family) {
  const Described<LanguageModelConfig> llama = llama_base();
  read_decoder(llama, family.base);
  family.base.config.causal = false;
  family.base.config.embedding.norm = family.base.config.pooler_norm = true;
  family.base.layer.norm_kind = nn::NormKind::layer;
  return family;
}

}  // namespace

EncoderFamily modernbert_family() {
  return with_base({.model_type = "modernbert",
                    .classes = {{.name = "ModernBertModel"},
                                {.name = "ModernBertForMaskedLM", .masked_language = true},
                                {.name = "ModernBertForSequenceClassification",
                                 .pooler = true,
                                 .labelled = ClassificationTarget::texts},
                                {.name = "ModernBertForTokenClassification",
                                 .pooler = true,
                                 .labelled = ClassificationTarget::tokens}},
                    .base = {},
                    .table = table,
                    .weight_map = weight_map});
}

}  // namespace qkv::models
