// RoBERTa (Liu et al. 2019): BERT's blocks; positions count from the padding id + 1, and heads have other
// names.

#include <array>

#include "qkv/models/families/encoders/bert_family.h"
#include "qkv/models/hub/family.h"

namespace qkv::models {
namespace {

constexpr std::array<EncoderArchitecture, 4> kArchitectures{
    {{.name = "RobertaModel", .pooler = true},
     {.name = "RobertaForMaskedLM", .masked_language = true},
     {.name = "RobertaForSequenceClassification", .pooler = true, .labelled = ClassificationTarget::texts},
     {.name = "RobertaForTokenClassification", .labelled = ClassificationTarget::tokens}}};

TextEncoderConfig parse(const ConfigReader& reader) {
  const int64_t d_model = reader.integer("hidden_size");
  const int64_t rows = reader.integer("max_position_embeddings", 512);
  const int64_t first_row = reader.integer("pad_token_id", 1) + 1;
  const auto epsilon = static_cast<float>(reader.number("layer_norm_eps", 1e-12));
  const auto dropout = static_cast<float>(reader.number("hidden_dropout_prob", 0.1));
  TextEncoderConfig config{.vocabulary = reader.integer("vocab_size"),
                           .max_positions = rows - first_row,
                           .embedding = {.d_model = d_model,
                                         .scale = false,
                                         .positions = {.kind = nn::PositionKind::learned,
                                                       .max_positions = rows,
                                                       .first_row = first_row},
                                         .token_types = reader.integer("type_vocab_size", 2),
                                         .norm = true,
                                         .epsilon = epsilon,
                                         .dropout = dropout},
                           .encoder = {.layers = reader.integer("num_hidden_layers"),
                                       .layer = {.d_model = d_model,
                                                 .heads = reader.integer("num_attention_heads"),
                                                 .d_ff = reader.integer("intermediate_size"),
                                                 .activation = reader.activation("hidden_act", "gelu"),
                                                 .epsilon = epsilon,
                                                 .dropout = dropout,
                                                 .attention_dropout = static_cast<float>(
                                                     reader.number("attention_probs_dropout_prob", 0.1))}}};
  read_heads(reader, kArchitectures, config);
  reader.require_string("position_embedding_type", "absolute");
  reader.require_boolean("is_decoder", false);
  reader.require_boolean("is_encoder_decoder", false);
  reader.require_boolean("add_cross_attention", false);
  reader.require_boolean("tie_word_embeddings", true);
  constexpr std::array<std::string_view, 1> kIrrelevant{"classifier_dropout"};
  reader.reject_unknown_model_fields(kIrrelevant);
  return config;
}

ConfigWriter serialize(const TextEncoderConfig& config) {
  require_bert_blocks(config, "roberta");
  ConfigWriter writer("roberta", architecture_of(config, kArchitectures).name);
  writer.integer("vocab_size", config.vocabulary);
  writer.integer("max_position_embeddings", config.embedding.positions.max_positions);
  writer.integer("pad_token_id", config.embedding.positions.first_row - 1);
  writer.integer("type_vocab_size", config.embedding.token_types);
  write_blocks(config.encoder, writer);
  write_labels(config.labels, config.problem, writer);
  return writer;
}

WeightMap weight_map(const TextEncoderConfig& config) {
  // The text classifier has two layers, the first of which is BERT's pooler.
  const bool of_texts = config.labelled == ClassificationTarget::texts;
  WeightMap map = bert_weight_map("roberta");
  map.rules.insert(map.rules.end(), {{"pooler", of_texts ? "classifier.dense" : "roberta.pooler.dense"},
                                     {"masked_language.dense", "lm_head.dense"},
                                     {"masked_language.layer_norm", "lm_head.layer_norm"},
                                     {"masked_language", "lm_head"},
                                     {"classifier", of_texts ? "classifier.out_proj" : "classifier"}});
  return map;
}

}  // namespace

EncoderFamily roberta_family() { return {"roberta", parse, serialize, weight_map}; }

}  // namespace qkv::models
