// RoBERTa (Liu et al. 2019): BERT's blocks; positions count from the padding id + 1 and skip pad tokens, and
// heads have other names.

#include "qkv/models/families/encoders/bert_family.h"

namespace qkv::models {
namespace {

void table(const Fields& fields, Described<TextEncoderConfig>& model) {
  nn::PositionOptions& positions = model.config.embedding.positions;
  fields("pad_token_id", positions.pad_id, 1);
  fields.require("pad_token_id", positions.pad_id >= 0, "an id, from which positions count");
  positions.first_row = positions.pad_id + 1;
  bert_fields(fields, model);
  fields.irrelevant("classifier_dropout");
}

WeightMap weight_map(const TextEncoderConfig& config) {
  // The text classifier has two layers, the first of which is BERT's pooler.
  const bool of_texts = config.labelled == ClassificationTarget::texts;
  const std::string decoder = "lm_head.decoder";
  WeightMap map = bert_weight_map(config, "roberta", decoder);
  map.rules.insert(map.rules.end(), {{"pooler", of_texts ? "classifier.dense" : "roberta.pooler.dense"},
                                     {"masked_language.dense", "lm_head.dense"},
                                     {"masked_language.layer_norm", "lm_head.layer_norm"},
                                     {.ours = "masked_language", .theirs = "lm_head", .also = {decoder}},
                                     {"classifier", of_texts ? "classifier.out_proj" : "classifier"}});
  return map;
}

}  // namespace

EncoderFamily roberta_family() {
  return {.model_type = "roberta",
          .classes = {{.name = "RobertaModel", .pooler = true},
                      {.name = "RobertaForMaskedLM", .masked_language = true},
                      {.name = "RobertaForSequenceClassification",
                       .pooler = true,
                       .labelled = ClassificationTarget::texts},
                      {.name = "RobertaForTokenClassification", .labelled = ClassificationTarget::tokens}},
          .base = bert_base(),
          .table = table,
          .weight_map = weight_map};
}

}  // namespace qkv::models
