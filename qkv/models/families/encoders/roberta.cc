// RoBERTa (Liu et al. 2019): BERT's blocks; positions are counted from behind the padding's id, and heads
// have other names.

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

TextEncoderConfig read(const ConfigReader& reader) {
  const int64_t d_model = reader.whole("hidden_size");
  const int64_t rows = reader.whole("max_position_embeddings", 512);
  const int64_t first_row = reader.whole("pad_token_id", 1) + 1;
  const auto epsilon = static_cast<float>(reader.number("layer_norm_eps", 1e-12));
  const auto dropout = static_cast<float>(reader.number("hidden_dropout_prob", 0.1));
  TextEncoderConfig config{.vocabulary = reader.whole("vocab_size"),
                           .max_positions = rows - first_row,
                           .embedding = {.d_model = d_model,
                                         .scale = false,
                                         .positions = {.kind = nn::PositionKind::learned,
                                                       .max_positions = rows,
                                                       .first_row = first_row},
                                         .token_types = reader.whole("type_vocab_size", 2),
                                         .norm = true,
                                         .epsilon = epsilon,
                                         .dropout = dropout},
                           .encoder = {.layers = reader.whole("num_hidden_layers"),
                                       .layer = {.d_model = d_model,
                                                 .heads = reader.whole("num_attention_heads"),
                                                 .d_ff = reader.whole("intermediate_size"),
                                                 .activation = reader.activation("hidden_act", "gelu"),
                                                 .epsilon = epsilon,
                                                 .dropout = dropout,
                                                 .attention_dropout = static_cast<float>(
                                                     reader.number("attention_probs_dropout_prob", 0.1))}}};
  read_heads(reader, kArchitectures, config);
  reader.require_text("position_embedding_type", "absolute");
  reader.require_flag("is_decoder", false);
  reader.require_flag("is_encoder_decoder", false);
  reader.require_flag("add_cross_attention", false);
  reader.require_flag("tie_word_embeddings", true);
  constexpr std::array<std::string_view, 1> kIrrelevant{"classifier_dropout"};
  reader.refuse_the_rest_of_a_model(kIrrelevant);
  return config;
}

std::string write(const TextEncoderConfig& config) {
  require_bert_blocks(config, "roberta");
  ConfigWriter writer("roberta", architecture_of(config, kArchitectures).name);
  writer.whole("vocab_size", config.vocabulary);
  writer.whole("max_position_embeddings", config.embedding.positions.max_positions);
  writer.whole("pad_token_id", config.embedding.positions.first_row - 1);
  writer.whole("type_vocab_size", config.embedding.token_types);
  write_blocks(config.encoder, writer);
  write_labels(config.labels, config.problem, writer);
  return writer.json();
}

NameMap names(const TextEncoderConfig& config) {
  // The classifier of texts is two layers, the first of which is what BERT's pooler is.
  const bool of_texts = config.labelled == ClassificationTarget::texts;
  NameMap map = bert_names("roberta");
  map.rules.insert(map.rules.end(), {{"pooler", of_texts ? "classifier.dense" : "roberta.pooler.dense"},
                                     {"masked_language.dense", "lm_head.dense"},
                                     {"masked_language.layer_norm", "lm_head.layer_norm"},
                                     {"masked_language", "lm_head"},
                                     {"classifier", of_texts ? "classifier.out_proj" : "classifier"}});
  return map;
}

}  // namespace

EncoderFamily roberta_family() { return {"roberta", read, write, names}; }

}  // namespace qkv::models
