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
  TextEncoderConfig config = parse_bert_fields(reader, kArchitectures, /*first_row=*/0);
  config.masked_language_activation = config.encoder.first().activation;
  // Training dropout, and a pooler described in TensorFlow's first folders that was never built.
  constexpr std::array<std::string_view, 7> kIrrelevant{
      "classifier_dropout",   "directionality",       "pooler_fc_size", "pooler_num_attention_heads",
      "pooler_num_fc_layers", "pooler_size_per_head", "pooler_type"};
  reader.reject_unknown_model_fields(kIrrelevant);
  return config;
}

ConfigWriter serialize(const TextEncoderConfig& config) {
  return serialize_bert_fields(config, "bert", kArchitectures, /*first_row=*/0);
}

WeightMap weight_map(const TextEncoderConfig& config) {
  const std::vector<std::string> tied = config.masked_language
                                            ? std::vector<std::string>{"cls.predictions.decoder"}
                                            : std::vector<std::string>();
  WeightMap map = bert_weight_map("bert", tied);
  map.rules.insert(map.rules.end(), {{"pooler", "bert.pooler.dense"},
                                     {"masked_language.dense", "cls.predictions.transform.dense"},
                                     {"masked_language.layer_norm", "cls.predictions.transform.LayerNorm"},
                                     {.ours = "masked_language", .theirs = "cls.predictions", .also = tied},
                                     {"next_sentence", "cls.seq_relationship"},
                                     {"classifier", "classifier"}});
  return map;
}

}  // namespace

EncoderFamily bert_family() { return {"bert", parse, serialize, weight_map}; }

}  // namespace qkv::models
