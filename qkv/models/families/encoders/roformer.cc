// RoFormer (Su et al. 2021): BERT's blocks with rotary positions, whose pairs are side by side; in some
// models the embeddings are narrower than the layers.

#include "qkv/models/families/decoders/llama_family.h"
#include "qkv/models/families/encoders/bert_family.h"

namespace qkv::models {
namespace {

void table(const Fields& fields, Described<TextEncoderConfig>& model) {
  auto& [config, layer, layers] = model;
  nn::EmbeddingConfig& embedding = config.embedding;
  fields("vocab_size", config.vocabulary);
  fields("type_vocab_size", embedding.token_types, 2);
  block_fields(fields, model, 0.1);
  int64_t width = embedding.width > 0 ? embedding.width : layer.d_model,
          positions = config.max_positions.value_or(1);
  fields("embedding_size", width, layer.d_model);
  fields("max_position_embeddings", positions, 1536);
  fields.require("embedding_size", width >= 1, "at least 1");
  fields.expect("rotary_value", false);
  fields.expect("tie_word_embeddings", true);
  fields.irrelevant("classifier_dropout");
  embedding.width = width == layer.d_model ? 0 : width;
  embedding.epsilon = layer.epsilon;
  embedding.dropout = layer.dropout;
  config.max_positions = positions;
  config.masked_language_activation = config.pooler_activation = layer.activation;
}

WeightMap weight_map(const TextEncoderConfig& config) {
  const std::string model = "roformer", decoder = "cls.predictions.decoder";
  WeightMap map = with_pairs(bert_weight_map(config, model, decoder), as_decoder({.config = config}).config);
  map.rules.insert(map.rules.end(),
                   {{"embed_projection", model + ".embeddings_project"},
                    {"pooler", "classifier.dense"},
                    {"masked_language.dense", "cls.predictions.transform.dense"},
                    {"masked_language.layer_norm", "cls.predictions.transform.LayerNorm"},
                    {.ours = "masked_language", .theirs = "cls.predictions", .also = {decoder}},
                    {"classifier", classifier_name(config, "classifier.out_proj")}});
  map.computed.emplace_back("encoder.embed_positions.weight");
  return map;
}

}  // namespace

EncoderFamily roformer_family() {
  EncoderFamily family{
      .model_type = "roformer",
      .classes = {{.name = "RoFormerModel"},
                  {.name = "RoFormerForMaskedLM", .masked_language = true},
                  {.name = "RoFormerForSequenceClassification",
                   .pooler = true,
                   .labelled = ClassificationTarget::texts},
                  {.name = "RoFormerForTokenClassification", .labelled = ClassificationTarget::tokens},
                  {.name = "RoFormerForQuestionAnswering", .labelled = ClassificationTarget::spans}},
      .base = bert_base(),
      .table = table,
      .weight_map = weight_map};
  family.base.config.embedding.positions = {};
  family.base.layer.attention.positions.kind = nn::PositionKind::rotary;
  return family;
}

}  // namespace qkv::models
