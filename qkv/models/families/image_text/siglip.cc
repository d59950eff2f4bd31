// SigLIP (Zhai et al. 2023), and SigLIP 2 (Tschannen et al. 2025) of fixed image sizes: an encoder of texts
// that also reads pad tokens, whose last token stands for the text, and ViT without a class token, whose
// patches are pooled by attention.

#include "qkv/models/families/image_text/dual_encoder.h"

namespace qkv::models {
namespace {

constexpr BlockDefaults kBlocks{768, 3072, 12, "gelu_pytorch_tanh", 1e-6};

void text_table(const Fields& fields, Described<TextEncoderConfig>& model) {
  TextEncoderConfig& config = model.config;
  dual_text_fields(fields, model, {kBlocks, 32000, 64});
  fields("projection_size", config.pooler_width, model.layer.d_model);
}

void image_table(const Fields& fields, Described<ImageEncoderConfig>& model) {
  dual_image_fields(fields, model, kBlocks, 16);
  fields("vision_use_head", model.config.pooler, true);
}

WeightMap text_map(const TextEncoderConfig& /*config*/) {
  WeightMap map = dual_text_map();
  map.rules.push_back({"pooler", map.prefix + "head"});
  return map;
}

WeightMap image_map(const ImageEncoderConfig& config) {
  WeightMap map = dual_image_map(config);
  const std::string head = map.prefix + "head.";
  const int64_t d_model = config.encoder.d_model();
  for (const char* part : {"weight", "bias"}) {
    const auto rules = concatenated(concat(head, "attention.in_proj_", part), Layout::same,
                                    {{concat("pooler.attn.q_proj.", part), d_model},
                                     {concat("pooler.attn.k_proj.", part), d_model},
                                     {concat("pooler.attn.v_proj.", part), d_model}});
    map.rules.insert(map.rules.end(), rules.begin(), rules.end());
  }
  map.rules.insert(map.rules.end(),
                   {{.ours = "pooler.query", .theirs = head + "probe", .shape = {1, 1, d_model}},
                    {"pooler.attn.out_proj", head + "attention.out_proj"},
                    {"pooler.layer_norm", head + "layernorm"},
                    {"pooler.fc1", head + "mlp.fc1"},
                    {"pooler.fc2", head + "mlp.fc2"},
                    {"encoder.layer_norm", map.prefix + "post_layernorm"}});
  return map;
}

Described<TextEncoderConfig> text_base() {
  Described<TextEncoderConfig> model = dual_text_base();
  model.config.padded = true;
  return model;
}

Described<ImageEncoderConfig> image_base() {
  Described<ImageEncoderConfig> model = dual_image_base();
  model.config.class_token = false;
  model.config.encoder.final_norm = true;
  model.config.pooler_kind = ImagePooler::attention;
  return model;
}

}  // namespace

EncoderFamily siglip_text_family() {
  return {.model_type = "siglip_text_model",
          .classes = {{.name = "SiglipTextModel", .pooler = true}},
          .base = text_base(),
          .table = text_table,
          .weight_map = text_map};
}

ImageFamily siglip_vision_family() {
  return {.model_type = "siglip_vision_model",
          .classes = {{.name = "SiglipVisionModel", .pooler = true}},
          .base = image_base(),
          .table = image_table,
          .weight_map = image_map};
}

}  // namespace qkv::models
