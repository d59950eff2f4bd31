// ALBERT (Lan et al. 2020): BERT's blocks, of which all have the same weights, after narrower embeddings.
// RemBERT (Chung et al. 2021) has narrower embeddings, too, but weights of each block.

#include "qkv/models/families/encoders/bert_family.h"

namespace qkv::models {
namespace {

void width_field(const Fields& fields, Described<TextEncoderConfig>& model, const char* key, int64_t usual) {
  nn::EmbeddingConfig& embedding = model.config.embedding;
  fields(key, embedding.width, usual);
  fields.require(key, embedding.width >= 1 && embedding.width != model.layer.d_model,
                 "another width than hidden_size, at least 1");
}

void table(const Fields& fields, Described<TextEncoderConfig>& model) {
  auto& [config, layer, layers] = model;
  nn::EmbeddingConfig& embedding = config.embedding;
  int64_t inner = layers;
  layers = config.encoder.repeats;  // "num_hidden_layers"
  block_fields(fields, model, 0, "gelu_new");
  fields("vocab_size", config.vocabulary);
  fields("max_position_embeddings", embedding.positions.max_positions, 512);
  fields("type_vocab_size", embedding.token_types, 2);
  fields("inner_group_num", inner, 1);
  fields.require("inner_group_num", inner >= 1, "at least 1");
  width_field(fields, model, "embedding_size", 128);
  fields.expect("num_hidden_groups", 1);
  fields.expect("position_embedding_type", "absolute");
  fields.expect("tie_word_embeddings", true);
  // Training dropout, and settings of the first program that were never used.
  fields.irrelevant(
      "classifier_dropout_prob down_scale_factor gap_size net_structure_type num_memory_blocks");
  config.encoder.repeats = std::max<int64_t>(layers, 1);
  layers = inner;
  config.max_positions = embedding.positions.max_positions;
  config.masked_language_activation = layer.activation;
  embedding.epsilon = layer.epsilon;
  embedding.dropout = layer.dropout;
}

WeightMap weight_map(const TextEncoderConfig& config) {
  const std::string ours = "encoder.layers.#.", embeddings = "albert.embeddings.",
                    head = "predictions.decoder",
                    theirs = "albert.encoder.albert_layer_groups.0.albert_layers.#.",
                    attention = theirs + "attention.";
  const auto also = config.masked_language ? std::vector{head} : std::vector<std::string>();
  return {.rules = {{.ours = "embed_tokens", .theirs = embeddings + "word_embeddings", .also = also},
                    {"embed_positions", embeddings + "position_embeddings"},
                    {"embed_types", embeddings + "token_type_embeddings"},
                    {"embed_layer_norm", embeddings + "LayerNorm"},
                    {"embed_projection", "albert.encoder.embedding_hidden_mapping_in"},
                    {ours + "self_attn.q_proj", attention + "query"},
                    {ours + "self_attn.k_proj", attention + "key"},
                    {ours + "self_attn.v_proj", attention + "value"},
                    {ours + "self_attn.out_proj", attention + "dense"},
                    {ours + "self_attn_layer_norm", attention + "LayerNorm"},
                    {ours + "fc1", theirs + "ffn"},
                    {ours + "fc2", theirs + "ffn_output"},
                    {ours + "final_layer_norm", theirs + "full_layer_layer_norm"},
                    {"pooler", "albert.pooler"},
                    {"masked_language.dense", "predictions.dense"},
                    {"masked_language.layer_norm", "predictions.LayerNorm"},
                    {.ours = "masked_language", .theirs = "predictions", .also = {head}},
                    {"classifier", classifier_name(config)}},
          .prefix = "albert.",
          .computed = {"embeddings.position_ids", "embeddings.token_type_ids"}};
}

void rembert_table(const Fields& fields, Described<TextEncoderConfig>& model) {
  nn::EmbeddingConfig& embedding = model.config.embedding;
  block_fields(fields, model, 0);
  fields("vocab_size", model.config.vocabulary);
  fields("max_position_embeddings", embedding.positions.max_positions, 512);
  fields("type_vocab_size", embedding.token_types, 2);
  width_field(fields, model, "input_embedding_size", 256);
  model.config.max_positions = embedding.positions.max_positions;
  embedding.epsilon = model.layer.epsilon;
  embedding.dropout = model.layer.dropout;
  // Training dropout, and a head that is not supported.
  fields.irrelevant("classifier_dropout_prob output_embedding_size tie_word_embeddings");
}

WeightMap rembert_weight_map(const TextEncoderConfig& config) {
  WeightMap map = bert_weight_map(config, "rembert", "");
  map.rules.insert(map.rules.end(), {{"embed_projection", "rembert.encoder.embedding_hidden_mapping_in"},
                                     {"pooler", "rembert.pooler.dense"},
                                     {"classifier", classifier_name(config)}});
  return map;
}

}  // namespace

EncoderFamily albert_family() {
  return {.model_type = "albert",
          .classes = {{.name = "AlbertModel", .pooler = true},
                      {.name = "AlbertForPreTraining", .pooler = true, .masked_language = true},
                      {.name = "AlbertForMaskedLM", .masked_language = true},
                      {.name = "AlbertForSequenceClassification",
                       .pooler = true,
                       .labelled = ClassificationTarget::texts},
                      {.name = "AlbertForTokenClassification", .labelled = ClassificationTarget::tokens},
                      {.name = "AlbertForQuestionAnswering", .labelled = ClassificationTarget::spans}},
          .base = bert_base(),
          .table = table,
          .weight_map = weight_map};
}

EncoderFamily rembert_family() {
  return {.model_type = "rembert",
          .classes = {{.name = "RemBertModel", .pooler = true},
                      {.name = "RemBertForMaskedLM"},  // whose head is not read
                      {.name = "RemBertForSequenceClassification",
                       .pooler = true,
                       .labelled = ClassificationTarget::texts},
                      {.name = "RemBertForTokenClassification", .labelled = ClassificationTarget::tokens},
                      {.name = "RemBertForQuestionAnswering", .labelled = ClassificationTarget::spans}},
          .base = bert_base(),
          .table = rembert_table,
          .weight_map = rembert_weight_map};
}

}  // namespace qkv::models
