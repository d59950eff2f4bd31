// Nomic BERT (Nussbaum et al. 2024): BERT's post-norm blocks with rotary positions, a gated feed-forward, and
// no biases but the norms'. Tensors have the names of the first folders, which transformers 5 writes, too.

#include "qkv/models/families/decoders/llama_family.h"
#include "qkv/models/families/encoders/bert_family.h"
#include "qkv/models/hub/settings.h"

namespace qkv::models {
namespace {

void table(const Fields& fields, Described<TextEncoderConfig>& model) {
  nn::EmbeddingConfig& embedding = model.config.embedding;
  fields("vocab_size", model.config.vocabulary);
  fields("type_vocab_size", embedding.token_types, 2);
  block_fields(fields, model, 0, "silu");
  Described<LanguageModelConfig> decoder = as_decoder(model);
  fields("head_dim", decoder.layer.d_k,
         decoder.layer.heads > 0 ? decoder.layer.d_model / decoder.layer.heads : 0);
  decoder.layer.d_v = decoder.layer.d_k;
  position_fields(fields, decoder, {.max_positions = 2048, .rotary_base = 1000});
  read_decoder(decoder, model);
  fields.expect("tie_word_embeddings", true);
  fields.irrelevant("classifier_dropout");
  embedding.epsilon = model.layer.epsilon;
  embedding.dropout = model.layer.dropout;
  model.config.masked_language_activation = model.layer.activation;
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

}  // namespace

EncoderFamily nomic_bert_family() {
  EncoderFamily family{
      .model_type = "nomic_bert",
      .classes = {{.name = "NomicBertModel"}, {.name = "NomicBertForMaskedLM", .masked_language = true}},
      .base = {},
      .table = table,
      .weight_map = weight_map};
  read_decoder(llama_base(), family.base);
  family.base.layer.norm = nn::NormPlacement::post;
  family.base.layer.norm_kind = nn::NormKind::layer;
  family.base.config.encoder.final_norm = family.base.config.causal = false;
  family.base.config.embedding.norm = true;
  return family;
}

}  // namespace qkv::models
