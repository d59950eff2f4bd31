// RoBERTa (Liu et al. 2019): BERT's blocks; positions count from the padding id + 1 and skip pad tokens, and
// heads have other names. XLM-RoBERTa (Conneau et al. 2020) and CamemBERT (Martin et al. 2020) are the same
// model with other tokenizers, data2vec (Baevski et al. 2022) with another prefix of its tensors. XLM-R XL
// (Goyal et al. 2021) and fairseq's RoBERTa with "encoder-normalize-before" have pre-norm blocks.

#include <string>

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

WeightMap weight_map_of(const std::string& model, const TextEncoderConfig& config) {
  // The text classifier has two layers, the first of which is BERT's pooler.
  const bool of_texts = config.labelled == ClassificationTarget::texts;
  const std::string decoder = "lm_head.decoder";
  WeightMap map = bert_weight_map(config, model, decoder);
  map.rules.insert(map.rules.end(), {{"pooler", of_texts ? "classifier.dense" : model + ".pooler.dense"},
                                     {"masked_language.dense", "lm_head.dense"},
                                     {"masked_language.layer_norm", "lm_head.layer_norm"},
                                     {.ours = "masked_language", .theirs = "lm_head", .also = {decoder}},
                                     {"classifier", classifier_name(config, "classifier.out_proj")}});
  return map;
}

// `name`: the beginning of its classes' names.
EncoderFamily family(std::string_view model_type, const std::string& name,
                     const std::string& prefix = "roberta") {
  return {.model_type = model_type,
          .classes = {{.name = name + "Model", .pooler = true},
                      {.name = name + "ForMaskedLM", .masked_language = true},
                      {.name = name + "ForSequenceClassification",
                       .pooler = true,
                       .labelled = ClassificationTarget::texts},
                      {.name = name + "ForTokenClassification", .labelled = ClassificationTarget::tokens},
                      {.name = name + "ForQuestionAnswering", .labelled = ClassificationTarget::spans}},
          .base = bert_base(),
          .table = table,
          .weight_map = [prefix](const TextEncoderConfig& config) { return weight_map_of(prefix, config); }};
}

}  // namespace

EncoderFamily roberta_family() { return family("roberta", "Roberta"); }

EncoderFamily xlm_roberta_family() { return family("xlm-roberta", "XLMRoberta"); }

EncoderFamily xlm_roberta_xl_family() {
  EncoderFamily xl = family("xlm-roberta-xl", "XLMRobertaXL");
  xl.base = pre_norm_bert_base(false);
  xl.weight_map = [](const TextEncoderConfig& config) {
    return with_norms(weight_map_of("roberta", config), "roberta", "attention.self_attn_layer_norm",
                      "LayerNorm", "encoder.LayerNorm");
  };
  return xl;
}

EncoderFamily roberta_prelayernorm_family() {
  const std::string model = "roberta_prelayernorm";
  EncoderFamily before = family("roberta-prelayernorm", "RobertaPreLayerNorm", model);
  before.base = pre_norm_bert_base(true);
  before.weight_map = [model](const TextEncoderConfig& config) {
    return with_norms(weight_map_of(model, config), model, "attention.LayerNorm", "intermediate.LayerNorm",
                      "LayerNorm");
  };
  return before;
}

EncoderFamily data2vec_family() { return family("data2vec-text", "Data2VecText", "data2vec_text"); }

EncoderFamily camembert_family() { return family("camembert", "Camembert"); }

}  // namespace qkv::models
