// BERT (Devlin et al. 2019): post-norm, learned positions and token types, a norm of the embeddings.
// Megatron-BERT (Shoeybi et al. 2019) has pre-norm blocks; ERNIE (Sun et al. 2019) is BERT with another
// prefix of its tensors.

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

void ernie_table(const Fields& fields, Described<TextEncoderConfig>& model) {
  table(fields, model);
  fields.expect("use_task_id", false);
  fields.irrelevant("task_type_vocab_size");
}

WeightMap weight_map_of(const std::string& name, const TextEncoderConfig& config) {
  const std::string decoder = "cls.predictions.decoder";
  WeightMap map = bert_weight_map(config, name, decoder);
  map.rules.insert(map.rules.end(),
                   {{"pooler", name + ".pooler.dense"},
                    {"masked_language.dense", "cls.predictions.transform.dense"},
                    {"masked_language.layer_norm", "cls.predictions.transform.LayerNorm"},
                    {.ours = "masked_language", .theirs = "cls.predictions", .also = {decoder}},
                    {"next_sentence", "cls.seq_relationship"},
                    {"classifier", classifier_name(config)}});
  return map;
}

// The classes of a name: "Bert".
std::vector<ModelClass> classes(const std::string& name) {
  return {
      {.name = name + "Model", .pooler = true},
      {.name = name + "ForPreTraining", .pooler = true, .masked_language = true, .next_sentence = true},
      {.name = name + "ForMaskedLM", .masked_language = true},
      {.name = name + "ForNextSentencePrediction", .pooler = true, .next_sentence = true},
      {.name = name + "ForSequenceClassification", .pooler = true, .labelled = ClassificationTarget::texts},
      {.name = name + "ForTokenClassification", .labelled = ClassificationTarget::tokens},
      {.name = name + "ForQuestionAnswering", .labelled = ClassificationTarget::spans}};
}

}  // namespace

EncoderFamily bert_family() {
  EncoderFamily family{
      .model_type = "bert",
      .classes = classes("Bert"),
      .base = bert_base(),
      .table = table,
      .weight_map = [](const TextEncoderConfig& config) { return weight_map_of("bert", config); }};
  // Of GGUF files, which have no pooler; transformers has no such folders.
  family.classes.push_back({.name = "BertEncoder"});
  return family;
}

EncoderFamily ernie_family() {
  return {.model_type = "ernie",
          .classes = classes("Ernie"),
          .base = bert_base(),
          .table = ernie_table,
          .weight_map = [](const TextEncoderConfig& config) { return weight_map_of("ernie", config); }};
}

EncoderFamily megatron_bert_family() {
  return {.model_type = "megatron-bert",
          .classes = classes("MegatronBert"),
          .base = pre_norm_bert_base(false),
          .table = table,
          .weight_map = [](const TextEncoderConfig& config) {
            return with_norms(weight_map_of("bert", config), "bert", "attention.ln", "ln", "encoder.ln");
          }};
}

}  // namespace qkv::models
