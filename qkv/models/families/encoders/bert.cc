// BERT (Devlin et al. 2019): post-norm, learned positions and token types, a norm of the embeddings.

#include "qkv/models/families/encoders/bert_family.h"

namespace qkv::models {
namespace {

void table(const Fields& fields, Described<TextEncoderConfig>& model) {
  bert_fields(fields, model);
  model.config.masked_language_activation = model.layer.activation;
  // Training dropout, and a pooler described in TensorFlow's first folders that was never built.
  fields.irrelevant(
      "classifier_dropout directionality pooler_fc_size pooler_num_attention_heads pooler_num_fc_layers "
      "pooler_size_per_head pooler_type");
}

WeightMap weight_map(const TextEncoderConfig& config) {
  const std::string decoder = "cls.predictions.decoder";
  WeightMap map = bert_weight_map(config, "bert", decoder);
  map.rules.insert(map.rules.end(),
                   {{"pooler", "bert.pooler.dense"},
                    {"masked_language.dense", "cls.predictions.transform.dense"},
                    {"masked_language.layer_norm", "cls.predictions.transform.LayerNorm"},
                    {.ours = "masked_language", .theirs = "cls.predictions", .also = {decoder}},
                    {"next_sentence", "cls.seq_relationship"},
                    {"classifier", "classifier"}});
  return map;
}

}  // namespace

EncoderFamily bert_family() {
  return {
      .model_type = "bert",
      .classes =
          {{.name = "BertModel", .pooler = true},
           {.name = "BertForPreTraining", .pooler = true, .masked_language = true, .next_sentence = true},
           {.name = "BertForMaskedLM", .masked_language = true},
           {.name = "BertForNextSentencePrediction", .pooler = true, .next_sentence = true},
           {.name = "BertForSequenceClassification", .pooler = true, .labelled = ClassificationTarget::texts},
           {.name = "BertForTokenClassification", .labelled = ClassificationTarget::tokens},
           {.name = "BertEncoder"}},  // of GGUF files, which have no pooler; transformers has no such folders
      .base = bert_base(),
      .table = table,
      .weight_map = weight_map};
}

}  // namespace qkv::models
