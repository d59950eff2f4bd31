// Nomic BERT (Nussbaum et al. 2024): BERT's post-norm blocks with rotary positions, a gated feed-forward, and
// no biases but the norms'. Tensors have the names of the first folders, which transformers 5 writes, too;
// the first config.json has GPT-2's names of fields. Jina embeddings 3 (Sturua et al. 2024) have biases and
// no gate; GTE (Zhang et al. 2024, "mGTE") biases in attention and of the feed-forward's result.

#include "qkv/models/families/decoders/llama_family.h"
#include "qkv/models/families/encoders/bert_family.h"
#include "qkv/models/hub/settings.h"

namespace qkv::models {
namespace {

void rotary_positions(const Fields& fields, Described<TextEncoderConfig>& model,
                      const LlamaDefaults& defaults) {
  Described<LanguageModelConfig> decoder = as_decoder(model);
  fields("head_dim", decoder.layer.d_k,
         decoder.layer.heads > 0 ? decoder.layer.d_model / decoder.layer.heads : 0);
  decoder.layer.d_v = decoder.layer.d_k;
  position_fields(fields, decoder, defaults);
  read_decoder(decoder, model);
  fields.expect("tie_word_embeddings", true);
  fields.irrelevant("classifier_dropout");
  model.config.embedding.epsilon = model.layer.epsilon;
  model.config.embedding.dropout = model.layer.dropout;
}

// Fields of the first folders, whose other names are below.
void first_fields(const Fields& fields) {
  fields.expect("activation_function", "swiglu");
  fields.expect(
      "causal mlp_fc1_bias mlp_fc2_bias parallel_block parallel_block_tied_norm prenorm qkv_proj_bias",
      false);
  fields.expect("rotary_emb_interleaved scale_attn_by_inverse_layer_idx use_rms_norm", false);
  fields.expect("scale_attn_weights", true);
  fields.expect("rotary_emb_fraction", 1.0);
  for (const char* key : {"rotary_emb_scale_base", "rotary_scaling_factor"})
    fields.require(key, fields.absent(key), "null");
  // The length to which texts were extended untrained, and how the first program computes.
  fields.irrelevant(
      "dense_seq_output embd_pdrop fused_bias_fc fused_dropout_add_ln n_positions pad_vocab_size_multiple "
      "reorder_and_upcast_attn rotary_emb_scale_base rotary_scaling_factor summary_activation "
      "summary_first_dropout summary_proj_to_labels summary_type summary_use_proj use_flash_attn "
      "use_xentropy");
}

void table(const Fields& fields, Described<TextEncoderConfig>& model) {
  nn::LayerOptions& layer = model.layer;
  fields("vocab_size", model.config.vocabulary);
  fields("type_vocab_size", model.config.embedding.token_types, 2);
  fields({"hidden_size", "n_embd"}, layer.d_model);
  fields({"num_hidden_layers", "n_layer"}, model.layers);
  fields({"num_attention_heads", "n_head"}, layer.heads);
  fields({"intermediate_size", "n_inner"}, layer.d_ff);
  fields("hidden_act", layer.activation, "silu");
  fields({"layer_norm_eps", "layer_norm_epsilon"}, layer.epsilon, 1e-12);
  fields({"hidden_dropout_prob", "resid_pdrop"}, layer.dropout, 0);
  fields({"attention_probs_dropout_prob", "attn_pdrop"}, layer.attention_dropout, 0);
  rotary_positions(fields, model,
                   {.max_positions = 2048,
                    .rotary_base = 1000,
                    .base_field = {"rope_theta", "rotary_emb_base"},
                    .positions_field = {"max_position_embeddings", "max_trained_positions"}});
  if (fields.reads()) first_fields(fields);
  model.config.masked_language_activation = layer.activation;
}

void jina_table(const Fields& fields, Described<TextEncoderConfig>& model) {
  fields("vocab_size", model.config.vocabulary);
  fields("type_vocab_size", model.config.embedding.token_types, 1);
  block_fields(fields, model, 0.1);
  rotary_positions(fields, model, {.max_positions = 8194, .rotary_base = 20000});
}

void gte_table(const Fields& fields, Described<TextEncoderConfig>& model) {
  nn::LayerOptions& layer = model.layer;
  fields("vocab_size", model.config.vocabulary);
  fields("type_vocab_size", model.config.embedding.token_types, 1);
  block_fields(fields, model, 0.1);
  if (fields.absent("attention_probs_dropout_prob")) layer.attention_dropout = 0;
  layer.activation_dropout = layer.dropout;
  rotary_positions(fields, model, {.max_positions = 8192, .rotary_base = 160000});
}

// Those of its first program, whose prefix differs.
WeightMap gte_weight_map(const TextEncoderConfig& config) {
  const std::string ours = "encoder.layers.#.", prefix = "gte.", theirs = prefix + "encoder.layer.#.",
                    decoder = "lm_head.decoder";
  const nn::LayerOptions layer = resolved(config.encoder.first());
  const int64_t d = layer.heads * layer.d_k;
  const auto also = config.masked_language ? std::vector{decoder} : std::vector<std::string>();
  WeightMap map = with_rules(
      concatenated(
          theirs + "attention.qkv_proj", Layout::same,
          {{ours + "self_attn.q_proj", d}, {ours + "self_attn.k_proj", d}, {ours + "self_attn.v_proj", d}}),
      {.rules = {{.ours = "embed_tokens", .theirs = "gte.embeddings.word_embeddings", .also = also},
                 {"embed_types", "gte.embeddings.token_type_embeddings"},
                 {"embed_layer_norm", "gte.embeddings.LayerNorm"},
                 {ours + "self_attn.out_proj", theirs + "attention.o_proj"},
                 {ours + "self_attn_layer_norm", theirs + "attn_ln"},
                 {ours + "fc2", theirs + "mlp.down_proj"},
                 {ours + "final_layer_norm", theirs + "mlp_ln"},
                 {"pooler", "gte.pooler.dense"},
                 {"masked_language.dense", "lm_head.dense"},
                 {"masked_language.layer_norm", "lm_head.norm"},
                 {"masked_language", decoder},
                 {"classifier", "classifier"}},
       .prefix = prefix});
  map.other_prefixes = {"new."};
  return with_rules(concatenated(theirs + "mlp.up_gate_proj", Layout::same,
                                 {{ours + "fc1", layer.d_ff}, {ours + "gate", layer.d_ff}}),
                    std::move(map));
}

WeightMap jina_weight_map(const TextEncoderConfig& config) {
  const std::string ours = "encoder.layers.#.", theirs = "roberta.encoder.layers.#.",
                    decoder = "lm_head.decoder";
  const nn::LayerOptions layer = resolved(config.encoder.first());
  const int64_t d = layer.heads * layer.d_k;
  const bool of_texts = config.labelled == ClassificationTarget::texts;
  const auto also = config.masked_language ? std::vector{decoder} : std::vector<std::string>();
  return with_rules(
      concatenated(
          theirs + "mixer.Wqkv", Layout::same,
          {{ours + "self_attn.q_proj", d}, {ours + "self_attn.k_proj", d}, {ours + "self_attn.v_proj", d}}),
      {.rules = {{.ours = "embed_tokens", .theirs = "roberta.embeddings.word_embeddings", .also = also},
                 {"embed_types", "roberta.embeddings.token_type_embeddings"},
                 {"embed_layer_norm", "roberta.emb_ln"},
                 {ours + "self_attn.out_proj", theirs + "mixer.out_proj"},
                 {ours + "self_attn_layer_norm", theirs + "norm1"},
                 {ours + "fc1", theirs + "mlp.fc1"},
                 {ours + "fc2", theirs + "mlp.fc2"},
                 {ours + "final_layer_norm", theirs + "norm2"},
                 {"pooler", of_texts ? "classifier.dense" : "roberta.pooler.dense"},
                 {"masked_language.dense", "lm_head.dense"},
                 {"masked_language.layer_norm", "lm_head.layer_norm"},
                 {.ours = "masked_language", .theirs = "lm_head", .also = {decoder}},
                 {"classifier", classifier_name(config, "classifier.out_proj")}},
       .prefix = "roberta."});
}

WeightMap weight_map(const TextEncoderConfig& config) {
  const std::string ours = "encoder.layers.#.", theirs = "nomic_bert.encoder.layers.#.";
  const nn::LayerOptions layer = resolved(config.encoder.first());
  const int64_t d = layer.heads * layer.d_k;
  return with_rules(
      concatenated(
          theirs + "attn.Wqkv", Layout::same,
          {{ours + "self_attn.q_proj", d}, {ours + "self_attn.k_proj", d}, {ours + "self_attn.v_proj", d}}),
      {.rules = {{"embed_tokens", "nomic_bert.embeddings.word_embeddings"},
                 {"embed_types", "nomic_bert.embeddings.token_type_embeddings"},
                 {"embed_layer_norm", "nomic_bert.emb_ln"},
                 {ours + "self_attn.out_proj", theirs + "attn.out_proj"},
                 {ours + "self_attn_layer_norm", theirs + "norm1"},
                 {ours + "fc1", theirs + "mlp.fc11"},
                 {ours + "gate", theirs + "mlp.fc12"},
                 {ours + "fc2", theirs + "mlp.fc2"},
                 {ours + "final_layer_norm", theirs + "norm2"},
                 {"masked_language.dense", "cls.predictions.transform.dense"},
                 {"masked_language.layer_norm", "cls.predictions.transform.layer_norm"},
                 {"masked_language", "cls.predictions"}},
       .prefix = "nomic_bert."});
}

EncoderFamily with_base(EncoderFamily family, const Described<LanguageModelConfig>& base) {
  read_decoder(base, family.base);
  family.base.layer.norm = nn::NormPlacement::post;
  family.base.layer.norm_kind = nn::NormKind::layer;
  family.base.config.encoder.final_norm = family.base.config.causal = false;
  family.base.config.embedding.norm = true;
  return family;
}

}  // namespace

EncoderFamily nomic_bert_family() {
  return with_base(
      {.model_type = "nomic_bert",
       .classes = {{.name = "NomicBertModel"}, {.name = "NomicBertForMaskedLM", .masked_language = true}},
       .base = {},
       .table = table,
       .weight_map = weight_map},
      llama_base());
}

EncoderFamily jina_embeddings_v3_family() {
  return with_base(
      {.model_type = "jina_embeddings_v3",
       .classes = {{.name = "JinaEmbeddingsV3Model", .pooler = true},
                   {.name = "JinaEmbeddingsV3ForMaskedLM", .masked_language = true},
                   {.name = "JinaEmbeddingsV3ForSequenceClassification",
                    .pooler = true,
                    .labelled = ClassificationTarget::texts},
                   {.name = "JinaEmbeddingsV3ForTokenClassification",
                    .labelled = ClassificationTarget::tokens},
                   {.name = "JinaEmbeddingsV3ForQuestionAnswering", .labelled = ClassificationTarget::spans}},
       .base = {},
       .table = jina_table,
       .weight_map = jina_weight_map},
      biased_base());
}

EncoderFamily gte_family() {
  EncoderFamily family =
      with_base({.model_type = "gte",
                 .classes = {{.name = "GteModel"},
                             {.name = "GteForMaskedLM", .masked_language = true},
                             {.name = "GteForSequenceClassification",
                              .pooler = true,
                              .labelled = ClassificationTarget::texts},
                             {.name = "GteForTokenClassification", .labelled = ClassificationTarget::tokens}},
                 .base = {},
                 .table = gte_table,
                 .weight_map = gte_weight_map},
                biased_base());
  family.base.layer.gated = true;
  family.base.layer.inner_bias = false;
  return family;
}

}  // namespace qkv::models
