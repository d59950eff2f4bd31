// DistilBERT (Sanh et al. 2019): BERT's blocks without token types and pooler, with its own field names.

#include "qkv/models/hub/family.h"

namespace qkv::models {
namespace {

constexpr float kEpsilon = 1e-12f;  // a constant in transformers, not a field

void table(const Fields& fields, Described<TextEncoderConfig>& model) {
  auto& [config, layer, layers] = model;
  fields("vocab_size", config.vocabulary);
  fields("max_position_embeddings", config.embedding.positions.max_positions, 512);
  fields("dim", layer.d_model);
  fields("n_layers", layers);
  fields("n_heads", layer.heads);
  fields("hidden_dim", layer.d_ff);
  fields("activation", layer.activation, "gelu");
  fields("dropout", layer.dropout, 0.1);
  fields("attention_dropout", layer.attention_dropout, 0.1);
  fields.expect("tie_word_embeddings tie_weights_", true);
  // Sinusoids were only the initial positions: files hold the learned table. Training dropouts.
  fields.irrelevant("sinusoidal_pos_embds qa_dropout seq_classif_dropout");
  config.max_positions = config.embedding.positions.max_positions;
  config.embedding.dropout = layer.dropout;
  config.masked_language_activation = layer.activation;
}

WeightMap weight_map(const TextEncoderConfig& config) {
  const std::string layer = "distilbert.transformer.layer.#.";
  WeightMap map{.rules = {{"embed_tokens", "distilbert.embeddings.word_embeddings"},
                          {"embed_positions", "distilbert.embeddings.position_embeddings"},
                          {"embed_layer_norm", "distilbert.embeddings.LayerNorm"},
                          {"encoder.layers.#.self_attn.q_proj", layer + "attention.q_lin"},
                          {"encoder.layers.#.self_attn.k_proj", layer + "attention.k_lin"},
                          {"encoder.layers.#.self_attn.v_proj", layer + "attention.v_lin"},
                          {"encoder.layers.#.self_attn.out_proj", layer + "attention.out_lin"},
                          {"encoder.layers.#.self_attn_layer_norm", layer + "sa_layer_norm"},
                          {"encoder.layers.#.fc1", layer + "ffn.lin1"},
                          {"encoder.layers.#.fc2", layer + "ffn.lin2"},
                          {"encoder.layers.#.final_layer_norm", layer + "output_layer_norm"},
                          {"pooler", "pre_classifier"},
                          {"masked_language.dense", "vocab_transform"},
                          {"masked_language.layer_norm", "vocab_layer_norm"},
                          {"masked_language", "vocab_projector"},
                          {"classifier", classifier_name(config)}},
                .prefix = "distilbert.",
                .computed = {"embeddings.position_ids"}};
  if (config.masked_language) map.rules.front().also = {"vocab_projector"};
  return map;
}

}  // namespace

EncoderFamily distilbert_family() {
  return {.model_type = "distilbert",
          .classes = {{.name = "DistilBertModel"},
                      {.name = "DistilBertForMaskedLM", .masked_language = true},
                      {.name = "DistilBertForSequenceClassification",
                       .pooler = true,
                       .labelled = ClassificationTarget::texts},
                      {.name = "DistilBertForTokenClassification", .labelled = ClassificationTarget::tokens},
                      {.name = "DistilBertForQuestionAnswering", .labelled = ClassificationTarget::spans}},
          .base = {.config = {.embedding = {.positions = {.kind = nn::PositionKind::learned},
                                            .norm = true,
                                            .epsilon = kEpsilon},
                              .pooler_activation = Activation::relu},
                   .layer = {.epsilon = kEpsilon}},
          .table = table,
          .weight_map = weight_map};
}

}  // namespace qkv::models
