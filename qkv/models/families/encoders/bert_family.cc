#include "qkv/models/families/encoders/bert_family.h"

namespace qkv::models {

Described<TextEncoderConfig> bert_base() {
  return {.config = {.embedding = {.positions = {.kind = nn::PositionKind::learned}, .norm = true}}};
}

Described<TextEncoderConfig> pre_norm_bert_base(bool embedding_norm) {
  Described<TextEncoderConfig> model = bert_base();
  model.config.embedding.norm = embedding_norm;
  model.config.encoder.final_norm = true;
  model.layer.norm = nn::NormPlacement::pre;
  return model;
}

void bert_fields(const Fields& fields, Described<TextEncoderConfig>& model) {
  auto& [config, layer, layers] = model;
  nn::EmbeddingConfig& embedding = config.embedding;
  fields("vocab_size", config.vocabulary);
  fields("max_position_embeddings", embedding.positions.max_positions, 512);
  fields("type_vocab_size", embedding.token_types, 2);
  block_fields(fields, model, 0.1);
  fields.expect("position_embedding_type", "absolute");
  fields.expect("tie_word_embeddings", true);
  config.max_positions = embedding.positions.max_positions - embedding.positions.first_row;
  embedding.epsilon = layer.epsilon;
  embedding.dropout = layer.dropout;
}

WeightMap bert_weight_map(const TextEncoderConfig& config, const std::string& model,
                          const std::string& head) {
  const std::string embeddings = model + ".embeddings.", layer = model + ".encoder.layer.#.";
  const auto also = config.masked_language ? std::vector{head} : std::vector<std::string>();
  return {.rules = {{.ours = "embed_tokens", .theirs = embeddings + "word_embeddings", .also = also},
                    {"embed_positions", embeddings + "position_embeddings"},
                    {"embed_types", embeddings + "token_type_embeddings"},
                    {"embed_layer_norm", embeddings + "LayerNorm"},
                    {"encoder.layers.#.self_attn.q_proj", layer + "attention.self.query"},
                    {"encoder.layers.#.self_attn.k_proj", layer + "attention.self.key"},
                    {"encoder.layers.#.self_attn.v_proj", layer + "attention.self.value"},
                    {"encoder.layers.#.self_attn.out_proj", layer + "attention.output.dense"},
                    {"encoder.layers.#.self_attn_layer_norm", layer + "attention.output.LayerNorm"},
                    {"encoder.layers.#.fc1", layer + "intermediate.dense"},
                    {"encoder.layers.#.fc2", layer + "output.dense"},
                    {"encoder.layers.#.final_layer_norm", layer + "output.LayerNorm"}},
          .prefix = model + ".",
          .computed = {"embeddings.position_ids", "embeddings.token_type_ids"}};
}

WeightMap with_norms(WeightMap map, const std::string& model, const char* of_attention,
                     const char* of_feed_forward, const char* final_norm) {
  const std::string ours = "encoder.layers.#.", theirs = model + ".encoder.layer.#.";
  map.rules.insert(map.rules.begin(), {{ours + "self_attn_layer_norm", theirs + of_attention},
                                       {ours + "final_layer_norm", theirs + of_feed_forward},
                                       {"encoder.layer_norm", concat(model, ".", final_norm)}});
  return map;
}

}  // namespace qkv::models
