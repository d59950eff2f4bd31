// ModernBERT (Warner et al. 2024): pre-norm blocks with rotary positions, a gated feed-forward, and a window
// in two of three layers; the norm of the embeddings is that of the first self-attention. Heads have a layer,
// an activation and a norm. Its decoder (Weller et al. 2025, "Ettin") sees half of a window's tokens.

#include <algorithm>

#include "qkv/models/families/decoders/llama_family.h"

namespace qkv::models {
namespace {

// `nearer`: the positions of a layer's window; `tokens`: "local_attention".
void stack_fields(const Fields& fields, Described<LanguageModelConfig>& model, int64_t tokens,
                  int64_t (*nearer)(int64_t tokens)) {
  int64_t interval = 3;
  fields("local_attention", tokens, 128);
  fields.require("local_attention", tokens >= 2, "at least 2");
  if (fields.reads()) fields("global_attn_every_n_layers", interval, interval);
  fields.require("global_attn_every_n_layers", interval >= 1, "at least 1");
  layer_types(fields, model, nearer(tokens), [&](int64_t i) { return i % interval != 0; });
  rotary_fields_by_kind(fields, model,
                        {.max_positions = 8192, .rotary_base = 160000, .base_field = "global_rope_theta"},
                        "local_rope_theta", 10000);
  if (!model.config.decoder.layers.empty()) model.config.decoder.layers.front().attention_norm = false;
}

void common_fields(const Fields& fields, Described<LanguageModelConfig>& model) {
  auto& [config, layer, layers] = model;
  fields("vocab_size", config.vocabulary);
  fields("hidden_size", layer.d_model);
  fields("intermediate_size", layer.d_ff);
  fields("num_hidden_layers", layers);
  fields.require("num_hidden_layers", layers <= nn::kMaxLayers, concat("at most ", nn::kMaxLayers));
  layers = std::min(layers, nn::kMaxLayers);  // of a folder that is only described
  fields("num_attention_heads", layer.heads);
  fields("hidden_activation", layer.activation, "gelu");
  fields("norm_eps", layer.epsilon, 1e-5);
  fields("norm_bias", layer.norm_bias, false);
  attention_bias(fields, layer);
  fields("mlp_bias", layer.feed_forward_bias, false);
  fields("attention_dropout", layer.attention_dropout, 0);
  fields("mlp_dropout", layer.activation_dropout, 0);
  fields("embedding_dropout", config.embedding.dropout, 0);
  fields.irrelevant("classifier_dropout cls_token_id initializer_cutoff_factor sep_token_id");
  config.embedding.epsilon = layer.epsilon;
  config.embedding.norm_bias = layer.norm_bias;
}

void table(const Fields& fields, Described<TextEncoderConfig>& model) {
  TextEncoderConfig& config = model.config;
  Described<LanguageModelConfig> decoder = as_decoder(model);
  common_fields(fields, decoder);
  // A window of w tokens has w / 2 to each side.
  const int64_t window = window_of(decoder.config);
  stack_fields(fields, decoder, window > 0 ? 2 * (window - 1) : 128,
               [](int64_t tokens) { return tokens / 2 + 1; });
  read_decoder(decoder, model);
  fields("classifier_activation", config.pooler_activation, "gelu");
  fields("classifier_bias", config.head_bias, false);
  fields("decoder_bias", config.logit_bias, true);
  std::string pooling = config.pooled_row == PooledRow::mean ? "mean" : "cls";
  fields("classifier_pooling", pooling, "cls");
  fields.require("classifier_pooling", pooling == "cls" || pooling == "mean", "cls or mean");
  config.pooled_row = pooling == "mean" ? PooledRow::mean : PooledRow::first;
  fields.expect("tie_word_embeddings", true);
  fields.irrelevant(
      "deterministic_flash_attn layer_norm_eps position_embedding_type reference_compile "
      "repad_logits_with_grad sparse_pred_ignore_index sparse_prediction");
  config.masked_language_activation = config.pooler_activation;
}

void decoder_table(const Fields& fields, Described<LanguageModelConfig>& model) {
  auto& [config, layer, layers] = model;
  common_fields(fields, model);
  // Half of the tokens, as those behind are not seen.
  const int64_t window = window_of(config);
  fields.require("local_attention", !fields.is_null("local_attention"), "at least 2");
  // Before transformers 5 it concerned layers of both kinds.
  fields.require("rope_scaling", fields.absent("rope_scaling"), "null");
  stack_fields(fields, model, window > 0 ? 2 * window : 128, [](int64_t tokens) { return tokens / 2; });
  if (window_of(config) > 0) fields.expect("sliding_window", window_of(config));
  fields.irrelevant("sliding_window");  // repeats the half
  nn::LogitsLayer head = config.logit_layer.value_or(nn::LogitsLayer());
  fields("classifier_activation", head.activation, "gelu");
  fields("classifier_bias", head.bias, false);
  fields("decoder_bias", config.logit_bias, true);
  fields("tie_word_embeddings", config.tied, true);
  fields("bos_token_id", config.bos_ids);
  fields("eos_token_id", config.eos_ids);
  head.epsilon = layer.epsilon;
  head.norm_bias = layer.norm_bias;
  config.logit_layer = head;
}

// The blocks, which are within "encoder." or "decoder."; `head`: the other name of the table, if there is
// one.
WeightMap block_map(const nn::StackOptions& stack, const std::string& blocks, std::vector<std::string> head) {
  const std::string ours = blocks + "layers.#.", theirs = "model.layers.#.";
  const int64_t d_ff = stack.first().d_ff;
  return with_rules(
      concatenated(theirs + "mlp.Wi", Layout::same, {{ours + "gate", d_ff}, {ours + "fc1", d_ff}}),
      {.rules = {{.ours = "embed_tokens",
                  .theirs = "model.embeddings.tok_embeddings",
                  .also = std::move(head)},
                 {"embed_layer_norm", "model.embeddings.norm"},
                 {ours + "self_attn_layer_norm", theirs + "attn_norm"},
                 {ours + "self_attn.out_proj", theirs + "attn.Wo"},
                 {ours + "final_layer_norm", theirs + "mlp_norm"},
                 {ours + "fc2", theirs + "mlp.Wo"},
                 {blocks + "layer_norm", "model.final_norm"}},
       .prefix = "model."});
}

WeightMap weight_map(const TextEncoderConfig& config) {
  const std::string ours = "encoder.layers.#.self_attn.";
  const int64_t d = config.embedding.d_model;
  WeightMap map =
      block_map(config.encoder, "encoder.",
                config.masked_language ? std::vector<std::string>{"decoder"} : std::vector<std::string>());
  map.rules.insert(map.rules.end(), {{"pooler", "head.dense"},
                                     {"pooler.layer_norm", "head.norm"},
                                     {"masked_language.dense", "head.dense"},
                                     {"masked_language.layer_norm", "head.norm"},
                                     {"masked_language", "decoder"},
                                     {"classifier", "classifier"}});
  return with_rules(concatenated("model.layers.#.attn.Wqkv", Layout::same,
                                 {{ours + "q_proj", d}, {ours + "k_proj", d}, {ours + "v_proj", d}}),
                    std::move(map));
}

WeightMap decoder_weight_map(const LanguageModelConfig& config) {
  WeightMap map = block_map(config.decoder, "decoder.", tied_head(config, "decoder"));
  for (const char* part : {"q_proj", "k_proj", "v_proj"})
    map.rules.push_back({concat("decoder.layers.#.self_attn.", part), concat("model.layers.#.attn.", part)});
  map.rules.insert(
      map.rules.end(),
      {{"lm_head.dense", "lm_head.dense"}, {"lm_head.layer_norm", "lm_head.norm"}, {"lm_head", "decoder"}});
  return map;
}

Described<LanguageModelConfig> base() {
  Described<LanguageModelConfig> model = llama_base();
  model.config.embedding.norm = true;
  model.layer.norm_kind = nn::NormKind::layer;
  return model;
}

EncoderFamily with_base(EncoderFamily family) {
  read_decoder(base(), family.base);
  family.base.config.causal = false;
  family.base.config.pooler_norm = true;
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
                                 .labelled = ClassificationTarget::tokens},
                                {.name = "ModernBertForQuestionAnswering",
                                 .pooler = true,
                                 .labelled = ClassificationTarget::spans}},
                    .base = {},
                    .table = table,
                    .weight_map = weight_map});
}

LanguageFamily modernbert_decoder_family() {
  LanguageFamily family{.model_type = "modernbert-decoder",
                        .classes = {{"ModernBertDecoderForCausalLM"}, {"ModernBertDecoderModel"}},
                        .base = base(),
                        .table = decoder_table,
                        .weight_map = decoder_weight_map};
  family.base.config.logit_layer.emplace();
  return family;
}

}  // namespace qkv::models
