// BERT (Devlin et al. 2019): post-norm, learned positions and token types, a norm of the embeddings.

#include <array>

#include "qkv/models/families/encoders/bert_family.h"
#include "qkv/models/hub/family.h"

namespace qkv::models {
namespace {

constexpr std::array<EncoderArchitecture, 6> kArchitectures{
    {{.name = "BertModel", .pooler = true},
     {.name = "BertForPreTraining", .pooler = true, .masked_language = true, .next_sentence = true},
     {.name = "BertForMaskedLM", .masked_language = true},
     {.name = "BertForNextSentencePrediction", .pooler = true, .next_sentence = true},
     {.name = "BertForSequenceClassification", .pooler = true, .labelled = ClassificationTarget::texts},
     {.name = "BertForTokenClassification", .labelled = ClassificationTarget::tokens}}};

TextEncoderConfig parse(const ConfigReader& reader) {
  const int64_t d_model = reader.integer("hidden_size");
  const int64_t places = reader.integer("max_position_embeddings", 512);
  const auto epsilon = static_cast<float>(reader.number("layer_norm_eps", 1e-12));
  const auto dropout = static_cast<float>(reader.number("hidden_dropout_prob", 0.1));
  const Activation activation = reader.activation("hidden_act", "gelu");
  TextEncoderConfig config{
      .vocabulary = reader.integer("vocab_size"),
      .max_positions = places,
      .embedding = {.d_model = d_model,
                    .scale = false,
                    .positions = {.kind = nn::PositionKind::learned, .max_positions = places},
                    .token_types = reader.integer("type_vocab_size", 2),
                    .norm = true,
                    .epsilon = epsilon,
                    .dropout = dropout},
      .encoder = {.layers = reader.integer("num_hidden_layers"),
                  .layer = {.d_model = d_model,
                            .heads = reader.integer("num_attention_heads"),
                            .d_ff = reader.integer("intermediate_size"),
                            .activation = activation,
                            .epsilon = epsilon,
                            .dropout = dropout,
                            .attention_dropout =
                                static_cast<float>(reader.number("attention_probs_dropout_prob", 0.1))}},
      .masked_language_activation = activation};
  read_heads(reader, kArchitectures, config);
  reader.require_string("position_embedding_type", "absolute");
  reader.require_boolean("is_decoder", false);
  reader.require_boolean("is_encoder_decoder", false);
  reader.require_boolean("add_cross_attention", false);
  reader.require_boolean("tie_word_embeddings", true);
  // Training dropout, and a pooler described in TensorFlow's first folders that was never built.
  constexpr std::array<std::string_view, 7> kIrrelevant{
      "classifier_dropout",   "directionality",       "pooler_fc_size", "pooler_num_attention_heads",
      "pooler_num_fc_layers", "pooler_size_per_head", "pooler_type"};
  reader.reject_unknown_model_fields(kIrrelevant);
  return config;
}

ConfigWriter serialize(const TextEncoderConfig& config) {
  require_bert_blocks(config, "bert");
  ConfigWriter writer("bert", architecture_of(config, kArchitectures).name);
  writer.integer("vocab_size", config.vocabulary);
  writer.integer("max_position_embeddings", config.embedding.positions.max_positions);
  writer.integer("type_vocab_size", config.embedding.token_types);
  write_blocks(config.encoder, writer);
  write_labels(config.labels, config.problem, writer);
  return writer;
}

WeightMap weight_map(const TextEncoderConfig& /*config*/) {
  WeightMap map = bert_weight_map("bert");
  map.rules.insert(map.rules.end(), {{"pooler", "bert.pooler.dense"},
                                     {"masked_language.dense", "cls.predictions.transform.dense"},
                                     {"masked_language.layer_norm", "cls.predictions.transform.LayerNorm"},
                                     {"masked_language", "cls.predictions"},
                                     {"next_sentence", "cls.seq_relationship"},
                                     {"classifier", "classifier"}});
  return map;
}

}  // namespace

EncoderFamily bert_family() { return {"bert", parse, serialize, weight_map}; }

}  // namespace qkv::models
