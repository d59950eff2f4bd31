// EuroBERT (Boizard et al. 2025): LLaMA's blocks with attention in both directions.

#include "qkv/models/families/decoders/llama_family.h"

namespace qkv::models {
namespace {

void table(const Fields& fields, Described<TextEncoderConfig>& model) {
  Described<LanguageModelConfig> decoder = as_decoder(model);
  llama_fields(fields, decoder, {.max_positions = 8192, .epsilon = 1e-5});
  attention_bias(fields, decoder.layer);
  fields("mlp_bias", decoder.layer.feed_forward_bias, false);
  read_decoder(decoder, model);
  TextEncoderConfig& config = model.config;
  std::string pooling = config.pooled_row == PooledRow::mean ? "mean" : "bos";
  fields("classifier_pooling", pooling, "late");
  if (config.pooler)
    fields.require("classifier_pooling", pooling == "bos" || pooling == "mean", "bos or mean");
  config.pooled_row = config.pooler && pooling == "mean" ? PooledRow::mean : PooledRow::first;
  config.pooler_activation = Activation::gelu_exact;
  fields.irrelevant("pretraining_tp mask_token_id clf_pooling");
  if (!fields.reads()) fields.writer()->omit("bos_token_id eos_token_id tie_word_embeddings");
}

WeightMap weight_map(const TextEncoderConfig& config) {
  WeightMap map = llama_weight_map(as_decoder({.config = config}).config);
  const std::string theirs = "decoder.";
  for (WeightRule& rule : map.rules) {
    if (rule.ours.starts_with(theirs)) rule.ours.replace(0, theirs.size(), "encoder.");
    rule.also.clear();
  }
  map.rules.push_back({"pooler", "dense"});
  map.rules.push_back({"classifier", "classifier"});
  return map;
}

}  // namespace

EncoderFamily eurobert_family() {
  EncoderFamily family{
      .model_type = "eurobert",
      .classes = {{.name = "EuroBertModel"},
                  {.name = "EuroBertForMaskedLM"},  // whose head is not read
                  {.name = "EuroBertForSequenceClassification",
                   .pooler = true,
                   .labelled = ClassificationTarget::texts},
                  {.name = "EuroBertForTokenClassification", .labelled = ClassificationTarget::tokens}},
      .base = {},
      .table = table,
      .weight_map = weight_map};
  read_decoder(llama_base(), family.base);
  family.base.config.causal = false;
  return family;
}

}  // namespace qkv::models
