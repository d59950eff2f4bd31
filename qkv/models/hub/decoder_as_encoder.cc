// A family of language models as one of encoders: the same fields and tensors.

#include "qkv/base/error.h"
#include "qkv/models/hub/family.h"

namespace qkv::models {

Described<LanguageModelConfig> as_decoder(const Described<TextEncoderConfig>& model,
                                          const LanguageModelConfig& base) {
  Described<LanguageModelConfig> decoder{.config = base, .layer = model.layer, .layers = model.layers};
  decoder.config.vocabulary = model.config.vocabulary;
  decoder.config.max_positions = model.config.max_positions.value_or(decoder.config.max_positions);
  decoder.config.embedding = model.config.embedding;
  decoder.config.decoder = model.config.encoder;
  decoder.config.causal = model.config.causal;
  return decoder;
}

void read_decoder(const Described<LanguageModelConfig>& decoder, Described<TextEncoderConfig>& model) {
  model.layer = decoder.layer;
  model.layers = decoder.layers;
  model.config.vocabulary = decoder.config.vocabulary;
  model.config.max_positions = decoder.config.max_positions;
  model.config.embedding = decoder.config.embedding;
  model.config.encoder = decoder.config.decoder;
  model.config.causal = decoder.config.causal;
}

namespace {

void table(const LanguageFamily& family, const Fields& fields, Described<TextEncoderConfig>& model) {
  Described<LanguageModelConfig> decoder = as_decoder(model, family.base.config);
  family.table(fields, decoder);
  read_decoder(decoder, model);
  if (model.config.labelled == ClassificationTarget::texts) fields("pad_token_id", model.config.pad_ids);
  // An encoder has none of these: a copy keeps those of the original.
  if (!fields.reads()) fields.writer()->omit("bos_token_id eos_token_id tie_word_embeddings");
}

WeightMap weight_map(const LanguageFamily& family, const TextEncoderConfig& config) {
  const std::string theirs = "decoder.", ours = "encoder.", head = "lm_head";
  WeightMap map = family.weight_map(as_decoder({.config = config}, family.base.config).config);
  std::erase_if(map.rules, [&](const WeightRule& rule) { return rule.ours == head; });
  for (WeightRule& rule : map.rules) {
    if (rule.ours.starts_with(theirs)) rule.ours.replace(0, theirs.size(), ours);
    // The other name of a tied table, which may be another matrix here.
    rule.otherwise.insert(rule.otherwise.end(), rule.also.begin(), rule.also.end());
    rule.also.clear();
  }
  map.rules.push_back({"classifier", "score"});
  return map;
}

}  // namespace

EncoderFamily as_encoders(const LanguageFamily& family) {
  // "LlamaModel": the last class with this end.
  const std::string end = "Model";
  std::string stack;
  for (const ModelClass& one : family.classes) {
    if (one.name.ends_with(end)) stack = one.name;
  }
  const std::string name = stack.substr(0, stack.size() - end.size());
  const ModelClass classifier{.name = name + "ForSequenceClassification",
                              .labelled = ClassificationTarget::texts};
  EncoderFamily encoders{
      .model_type = family.model_type,
      .classes = {{.name = stack}},
      .base = {},
      .table = [family](const Fields& fields, auto& model) { table(family, fields, model); },
      .weight_map = [family](const TextEncoderConfig& config) { return weight_map(family, config); },
      .own_class = classifier.name};
  read_decoder(family.base, encoders.base);
  // A layer before the logits is one before the labels, too, which is not supported.
  if (!family.base.config.logit_layer) encoders.classes.push_back(classifier);
  for (const ModelClass& one : family.classes) {
    if (one.name != stack) encoders.classes.push_back(one);
  }
  return encoders;
}

}  // namespace qkv::models
