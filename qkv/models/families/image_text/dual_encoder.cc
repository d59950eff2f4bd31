#include "qkv/models/families/image_text/dual_encoder.h"

namespace qkv::models {
namespace {

void add_blocks(WeightMap& map) {
  const std::string ours = "encoder.layers.#.", theirs = map.prefix + "encoder.layers.#.";
  for (const char* projection :
       {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.out_proj"})
    map.rules.push_back({ours + projection, theirs + projection});
  map.rules.push_back({ours + "self_attn_layer_norm", theirs + "layer_norm1"});
  map.rules.push_back({ours + "fc1", theirs + "mlp.fc1"});
  map.rules.push_back({ours + "fc2", theirs + "mlp.fc2"});
  map.rules.push_back({ours + "final_layer_norm", theirs + "layer_norm2"});
  map.computed = {"embeddings.position_ids"};
}

}  // namespace

Described<TextEncoderConfig> dual_text_base() {
  return {.config = {.embedding = {.positions = {.kind = nn::PositionKind::learned}},
                     .encoder = {.final_norm = true},
                     .pooler_activation = Activation::identity,
                     .pooled_row = PooledRow::last},
          .layer = {.norm = nn::NormPlacement::pre}};
}

Described<ImageEncoderConfig> dual_image_base() { return {.layer = {.norm = nn::NormPlacement::pre}}; }

void dual_text_fields(const Fields& fields, Described<TextEncoderConfig>& model,
                      const TextDefaults& defaults) {
  TextEncoderConfig& config = model.config;
  fields("vocab_size", config.vocabulary, defaults.vocabulary);
  fields("max_position_embeddings", config.embedding.positions.max_positions, defaults.max_positions);
  dual_encoder_fields(fields, model, defaults.blocks);
  config.max_positions = config.embedding.positions.max_positions;
}

void dual_image_fields(const Fields& fields, Described<ImageEncoderConfig>& model,
                       const BlockDefaults& blocks, int64_t patch) {
  ImageEncoderConfig& config = model.config;
  fields("image_size", config.height, 224);
  fields("patch_size", config.patch, patch);
  fields("num_channels", config.channels, 3);
  dual_encoder_fields(fields, model, blocks);
  config.width = config.height;
}

WeightMap dual_text_map() {
  WeightMap map{.prefix = "text_model."};
  const std::string embeddings = map.prefix + "embeddings.";
  map.rules = {{"embed_tokens", embeddings + "token_embedding"},
               {"embed_positions", embeddings + "position_embedding"},
               {"encoder.layer_norm", map.prefix + "final_layer_norm"}};
  add_blocks(map);
  return map;
}

WeightMap dual_image_map(const ImageEncoderConfig& config) {
  WeightMap map{.prefix = "vision_model."};
  const std::string embeddings = map.prefix + "embeddings.";
  map.rules = {
      {.ours = "class_token", .theirs = embeddings + "class_embedding", .shape = {config.encoder.d_model()}},
      {"positions", embeddings + "position_embedding.weight"},
      {.ours = "patches",
       .theirs = embeddings + "patch_embedding",
       .shape = {config.encoder.d_model(), config.channels, config.patch, config.patch}}};
  add_blocks(map);
  return map;
}

}  // namespace qkv::models
