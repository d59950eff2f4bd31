// ELECTRA (Clark et al. 2020): BERT's blocks; in small models the embeddings are narrower than the layers.

#include "qkv/models/families/encoders/bert_family.h"

namespace qkv::models {
namespace {

void table(const Fields& fields, Described<TextEncoderConfig>& model) {
  nn::EmbeddingConfig& embedding = model.config.embedding;
  bert_fields(fields, model);
  int64_t width = embedding.width > 0 ? embedding.width : model.layer.d_model;
  fields("embedding_size", width, 128);
  fields.require("embedding_size", width >= 1, "at least 1");
  embedding.width = width == model.layer.d_model ? 0 : width;
  model.config.pooler_activation = Activation::gelu_exact;
  // Training dropout, and a head for multiple choice.
  fields.irrelevant(
      "classifier_dropout summary_type summary_use_proj summary_activation summary_last_dropout");
}

WeightMap weight_map(const TextEncoderConfig& config) {
  const std::string head = "generator_lm_head";
  WeightMap map = bert_weight_map(config, "electra", head);
  map.rules.insert(map.rules.end(), {{"embed_projection", "electra.embeddings_project"},
                                     {"pooler", "classifier.dense"},
                                     {"masked_language.dense", "generator_predictions.dense"},
                                     {"masked_language.layer_norm", "generator_predictions.LayerNorm"},
                                     {"masked_language", head},
                                     {"classifier", classifier_name(config, "classifier.out_proj")}});
  return map;
}

}  // namespace

EncoderFamily electra_family() {
  return {.model_type = "electra",
          .classes = {{.name = "ElectraModel"},
                      {.name = "ElectraForPreTraining"},  // whose head is not read
                      {.name = "ElectraForMaskedLM", .masked_language = true},
                      {.name = "ElectraForSequenceClassification",
                       .pooler = true,
                       .labelled = ClassificationTarget::texts},
                      {.name = "ElectraForTokenClassification", .labelled = ClassificationTarget::tokens},
                      {.name = "ElectraForQuestionAnswering", .labelled = ClassificationTarget::spans}},
          .base = bert_base(),
          .table = table,
          .weight_map = weight_map};
}

}  // namespace qkv::models
