// MPNet (Song et al. 2020): RoBERTa's blocks with T5's relative positions beside the learned ones.

#include "qkv/models/families/encoders/bert_family.h"

namespace qkv::models {
namespace {

void table(const Fields& fields, Described<TextEncoderConfig>& model) {
  nn::EmbeddingConfig& embedding = model.config.embedding;
  fields("vocab_size", model.config.vocabulary);
  fields("max_position_embeddings", embedding.positions.max_positions, 512);
  block_fields(fields, model, 0.1);
  fields.expect("relative_attention_num_buckets", 32);  // transformers reads no other
  fields.expect("tie_word_embeddings", true);
  model.config.max_positions = embedding.positions.max_positions - embedding.positions.first_row;
  embedding.epsilon = model.layer.epsilon;
  embedding.dropout = model.layer.dropout;
}

WeightMap weight_map(const TextEncoderConfig& config) {
  const bool of_texts = config.labelled == ClassificationTarget::texts;
  const std::string ours = "encoder.layers.#.self_attn", theirs = "mpnet.encoder.layer.#.attention";
  WeightMap map = bert_weight_map(config, "mpnet", "lm_head.decoder");
  map.rules.insert(map.rules.begin(), {{ours + ".q_proj", theirs + ".attn.q"},
                                       {ours + ".k_proj", theirs + ".attn.k"},
                                       {ours + ".v_proj", theirs + ".attn.v"},
                                       {ours + ".out_proj", theirs + ".attn.o"},
                                       {ours + "_layer_norm", theirs + ".LayerNorm"}});
  map.rules.insert(map.rules.end(),
                   {{"encoder.relative_positions", "mpnet.encoder.relative_attention_bias"},
                    {"pooler", of_texts ? "classifier.dense" : "mpnet.pooler.dense"},
                    {"masked_language.dense", "lm_head.dense"},
                    {"masked_language.layer_norm", "lm_head.layer_norm"},
                    {.ours = "masked_language", .theirs = "lm_head", .also = {"lm_head.decoder"}},
                    {"classifier", classifier_name(config, "classifier.out_proj")}});
  return map;
}

Described<TextEncoderConfig> base() {
  Described<TextEncoderConfig> model = bert_base();
  model.config.embedding.positions.pad_id = 1;  // constants in transformers
  model.config.embedding.positions.first_row = 2;
  model.layer.attention.positions = {.kind = nn::PositionKind::relative};
  return model;
}

}  // namespace

EncoderFamily mpnet_family() {
  return {.model_type = "mpnet",
          .classes = {{.name = "MPNetModel", .pooler = true},
                      {.name = "MPNetForMaskedLM", .masked_language = true},
                      {.name = "MPNetForSequenceClassification",
                       .pooler = true,
                       .labelled = ClassificationTarget::texts},
                      {.name = "MPNetForTokenClassification", .labelled = ClassificationTarget::tokens},
                      {.name = "MPNetForQuestionAnswering", .labelled = ClassificationTarget::spans}},
          .base = base(),
          .table = table,
          .weight_map = weight_map};
}

}  // namespace qkv::models
