// RoBERTa (Liu et al. 2019): BERT's blocks; positions count from the padding id + 1 and skip pad tokens, and
// heads have other names.

#include <array>

#include "qkv/base/error.h"
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
  const int64_t pad = reader.integer("pad_token_id", 1);
  if (pad < 0) reader.reject("pad_token_id", "an id, from which positions count");
  TextEncoderConfig config = parse_bert_fields(reader, kArchitectures, pad + 1);
  config.embedding.positions.pad_id = pad;
  constexpr std::array<std::string_view, 1> kIrrelevant{"classifier_dropout"};
  reader.reject_unknown_model_fields(kIrrelevant);
  return config;
}

ConfigWriter serialize(const TextEncoderConfig& config) {
  const int64_t pad = config.embedding.positions.pad_id;
  if (pad < 0) throw UsageError("roberta: expected positions that skip pad tokens (pad_id), found others");
  ConfigWriter writer = serialize_bert_fields(config, "roberta", kArchitectures, pad + 1);
  writer.integer("pad_token_id", pad);
  return writer;
}

WeightMap weight_map(const TextEncoderConfig& config) {
  // The text classifier has two layers, the first of which is BERT's pooler.
  const bool of_texts = config.labelled == ClassificationTarget::texts;
  const std::vector<std::string> tied =
      config.masked_language ? std::vector<std::string>{"lm_head.decoder"} : std::vector<std::string>();
  WeightMap map = bert_weight_map("roberta", tied);
  map.rules.insert(map.rules.end(), {{"pooler", of_texts ? "classifier.dense" : "roberta.pooler.dense"},
                                     {"masked_language.dense", "lm_head.dense"},
                                     {"masked_language.layer_norm", "lm_head.layer_norm"},
                                     {.ours = "masked_language", .theirs = "lm_head", .also = tied},
                                     {"classifier", of_texts ? "classifier.out_proj" : "classifier"}});
  return map;
}

}  // namespace

EncoderFamily roberta_family() { return {"roberta", parse, serialize, weight_map}; }

}  // namespace qkv::models
