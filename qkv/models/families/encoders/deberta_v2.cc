// DeBERTa V2 and V3 (He et al. 2021, 2023): BERT's blocks with disentangled attention, whose projections of
// contents project the vectors of distances too.

#include <algorithm>
#include <cmath>

#include "qkv/models/families/encoders/bert_family.h"

namespace qkv::models {
namespace {

// "p2c|c2p", in any order, also as a list.
void require_both_terms(const Fields& fields) {
  constexpr const char* kKey = "pos_att_type";
  if (!fields.reads()) return fields.writer()->string(kKey, "p2c|c2p");
  std::vector<std::string> terms;
  const auto json = fields.reader()->find(kKey);
  if (json && json->is_array()) {
    for (const JsonValue& one : json->items()) terms.push_back(one.string());
  } else if (json) {
    const std::string text = json->string();
    for (size_t begin = 0; begin <= text.size();) {
      const size_t end = std::min(text.find('|', begin), text.size());
      terms.push_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  std::ranges::sort(terms);
  fields.require(kKey, terms == std::vector<std::string>{"c2p", "p2c"}, "\"p2c|c2p\"");
}

// The vectors: `position_buckets` for each side up to `max_relative_positions`, or one for each distance.
void distances(const Fields& fields, nn::PositionOptions& positions, int64_t max_positions) {
  const bool widen = positions.max_distance > 0;
  int64_t buckets = widen ? positions.buckets : -1,
          longest = widen ? positions.max_distance : positions.buckets;
  fields("position_buckets", buckets, -1);
  fields("max_relative_positions", longest, -1);
  if (longest < 1) longest = max_positions;
  positions.buckets = buckets > 0 ? buckets : longest;
  positions.max_distance = buckets > 0 ? longest : 0;
  fields.require("position_buckets",
                 positions.max_distance == 0 || (buckets > 1 && longest > buckets / 2 + 1),
                 "2 or more, and half of them and 1 below max_relative_positions");
  std::string norm = positions.distance_norm ? "layer_norm" : "none";
  fields("norm_rel_ebd", norm, "none");
  positions.distance_norm = norm == "layer_norm";
  fields.require("norm_rel_ebd", norm == "layer_norm" || norm == "none", "\"layer_norm\" or \"none\"");
}

void table(const Fields& fields, Described<TextEncoderConfig>& model) {
  auto& [config, layer, layers] = model;
  nn::EmbeddingConfig& embedding = config.embedding;
  int64_t positions = config.max_positions.value_or(1);
  bool added = embedding.positions.kind == nn::PositionKind::learned, relative = true, shares = true;
  fields("vocab_size", config.vocabulary);
  fields("type_vocab_size", embedding.token_types, 0);
  fields("max_position_embeddings", positions, 512);
  block_fields(fields, model, 0.1);
  fields("position_biased_input", added, true);
  fields("relative_attention", relative, false);
  fields.require("relative_attention", relative, "true");
  fields("share_att_key", shares, false);
  fields.require("share_att_key", shares, "true");
  require_both_terms(fields);
  distances(fields, layer.attention.positions, positions);
  fields("pooler_hidden_act", config.pooler_activation, "gelu");
  int64_t width = layer.d_model, pooled = layer.d_model;
  fields("embedding_size", width, layer.d_model);
  fields.require("embedding_size", width == layer.d_model, "hidden_size");
  fields("pooler_hidden_size", pooled, layer.d_model);
  fields.require("pooler_hidden_size", pooled == layer.d_model, "hidden_size");
  fields.expect("conv_kernel_size", 0);
  fields.expect("legacy tie_word_embeddings", true);
  fields.irrelevant("pooler_dropout conv_act conv_groups");
  embedding.positions =
      added ? nn::PositionOptions{.kind = nn::PositionKind::learned, .max_positions = positions}
            : nn::PositionOptions{};
  embedding.epsilon = layer.epsilon;
  embedding.dropout = layer.dropout;
  config.max_positions = positions;
  config.masked_language_activation = layer.activation;
  // Of contents with contents, contents with distances, and distances with contents.
  const int64_t d_k = layer.heads > 0 ? layer.d_model / layer.heads : 1;
  layer.attention.scale = 1 / std::sqrt(3 * static_cast<float>(d_k));
}

WeightMap weight_map(const TextEncoderConfig& config) {
  const std::string decoder = "cls.predictions.decoder", ours = "encoder.layers.#.self_attn.",
                    theirs = "deberta.encoder.layer.#.attention.self.";
  WeightMap map = bert_weight_map(config, "deberta", decoder);
  map.rules.insert(map.rules.begin(), {{ours + "q_proj", theirs + "query_proj"},
                                       {ours + "k_proj", theirs + "key_proj"},
                                       {ours + "v_proj", theirs + "value_proj"},
                                       {"encoder.distances.norm", "deberta.encoder.LayerNorm"},
                                       {"encoder.distances", "deberta.encoder.rel_embeddings"}});
  map.rules.insert(map.rules.end(),
                   {{"pooler", "pooler.dense"},
                    {"masked_language.dense", "cls.predictions.transform.dense"},
                    {"masked_language.layer_norm", "cls.predictions.transform.LayerNorm"},
                    {.ours = "masked_language", .theirs = "cls.predictions", .also = {decoder}},
                    {"classifier", classifier_name(config)}});
  return map;
}

}  // namespace

EncoderFamily deberta_v2_family() {
  EncoderFamily family{
      .model_type = "deberta-v2",
      .classes = {{.name = "DebertaV2Model"},
                  {.name = "DebertaV2ForMaskedLM", .masked_language = true},
                  {.name = "DebertaV2ForSequenceClassification",
                   .pooler = true,
                   .labelled = ClassificationTarget::texts},
                  {.name = "DebertaV2ForTokenClassification", .labelled = ClassificationTarget::tokens},
                  {.name = "DebertaV2ForQuestionAnswering", .labelled = ClassificationTarget::spans}},
      .base = bert_base(),
      .table = table,
      .weight_map = weight_map};
  family.base.layer.attention.positions = {.kind = nn::PositionKind::disentangled};
  return family;
}

}  // namespace qkv::models
