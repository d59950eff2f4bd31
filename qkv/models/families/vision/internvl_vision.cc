// The image encoders of InternVL (Chen et al. 2024, "InternVL"; as in transformers): ViT with LayerScale, and
// in the largest models RMS norms, of queries and keys too. Only vision towers have them.

#include <array>

#include "qkv/models/hub/family.h"

namespace qkv::models {
namespace {

constexpr std::array<std::pair<std::string_view, nn::NormKind>, 2> kNorms{
    {{"layer_norm", nn::NormKind::layer}, {"rms_norm", nn::NormKind::rms}}};
constexpr float kQueryKeyEpsilon = 1e-6f;

void table(const Fields& fields, Described<ImageEncoderConfig>& model) {
  auto& [config, layer, layers] = model;
  fields("image_size", config.height, 448);
  fields("patch_size", config.patch, 14);
  fields("num_channels", config.channels, 3);
  fields("hidden_size", layer.d_model, 1024);
  fields("num_hidden_layers", layers, 24);
  fields("num_attention_heads", layer.heads, 16);
  fields("intermediate_size", layer.d_ff, 4096);
  fields("hidden_act", layer.activation, "gelu");
  fields("norm_type", layer.norm_kind, Words<nn::NormKind>(kNorms), nn::NormKind::layer);
  fields("layer_norm_eps", layer.epsilon, 1e-6);
  bool biased = layer.attention.bias.query, mean = !config.encoder.final_norm,
       norms = layer.attention.query_key_norm != nn::QueryKeyNorm::none;
  fields("attention_bias", biased, false);
  fields("use_mean_pooling", mean, true);
  fields("use_qk_norm", norms, false);
  const bool rms = layer.norm_kind == nn::NormKind::rms;
  fields.require("use_mean_pooling", mean || !rms, "true with \"norm_type\": \"rms_norm\"");
  fields.require("use_qk_norm", !norms || (rms && layer.epsilon == kQueryKeyEpsilon),
                 "false, but with \"norm_type\": \"rms_norm\" and \"layer_norm_eps\": 1e-6");
  fields.expect("use_absolute_position_embeddings", true);
  // Of training, and of what towers do not use.
  fields.irrelevant(
      "hidden_dropout_prob attention_dropout projection_dropout dropout drop_path_rate initializer_factor "
      "layer_scale_init_value use_mask_token");
  layer.attention.bias = {.query = biased, .key = biased, .value = biased};
  if (norms) layer.attention.query_key_norm = nn::QueryKeyNorm::all_heads;
  config.encoder.final_norm = !mean;
  config.width = config.height;
}

WeightMap weight_map(const ImageEncoderConfig& config) {
  WeightMap map{.prefix = "vision_tower."};
  const std::string ours = "encoder.layers.#.", theirs = map.prefix + "encoder.layer.#.";
  const std::string embeddings = map.prefix + "embeddings.";
  const int64_t d_model = config.encoder.d_model();
  map.rules = {{.ours = "class_token", .theirs = embeddings + "cls_token", .shape = {1, 1, d_model}},
               {.ours = "positions",
                .theirs = embeddings + "position_embeddings",
                .shape = {1, config.tokens(), d_model}},
               {.ours = "patches",
                .theirs = embeddings + "patch_embeddings.projection",
                .shape = {d_model, config.channels, config.patch, config.patch}},
               {"encoder.layer_norm", map.prefix + "layernorm"},
               {ours + "self_attn.out_proj", theirs + "attention.projection_layer"},
               {ours + "self_attn_layer_norm", theirs + "layernorm_before"},
               {ours + "self_attn_layer_scale", theirs + "lambda_1"},
               {ours + "fc1", theirs + "mlp.fc1"},
               {ours + "fc2", theirs + "mlp.fc2"},
               {ours + "final_layer_norm", theirs + "layernorm_after"},
               {ours + "final_layer_scale", theirs + "lambda_2"}};
  for (const char* part : {"q_proj", "k_proj", "v_proj", "q_norm", "k_norm"})
    map.rules.push_back({concat(ours, "self_attn.", part), concat(theirs, "attention.", part)});
  return map;
}

}  // namespace

ImageFamily internvl_vision_family() {
  return {.model_type = "internvl_vision",
          .classes = {{.name = "InternVLVisionModel"}},
          .base = {.layer = {.norm = nn::NormPlacement::pre, .layer_scale = true}},
          .table = table,
          .weight_map = weight_map};
}

}  // namespace qkv::models
