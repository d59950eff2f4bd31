// CLIP (Radford et al. 2021): a causal encoder of texts, whose last token stands for the text, and ViT with a
// norm of its embeddings, whose first token stands for the image.

#include "qkv/models/families/image_text/dual_encoder.h"

namespace qkv::models {
namespace {

constexpr const char* kActivation = "quick_gelu";
constexpr double kEpsilon = 1e-5;
constexpr int64_t kWidth = 512;  // of the projections

// Before transformers 4.31 files had this id for the end, of another token: the model's is the last one of
// the vocabulary.
constexpr int64_t kWrongEnd = 2;

void text_table(const Fields& fields, Described<TextEncoderConfig>& model) {
  TextEncoderConfig& config = model.config;
  dual_text_fields(fields, model, {{512, 2048, 8, kActivation, kEpsilon}, 49408, 77});
  int64_t end = config.end_id.value_or(0);
  fields("eos_token_id", end, 49407);
  if (fields.reads()) config.end_id = static_cast<int32_t>(end == kWrongEnd ? config.vocabulary - 1 : end);
  if (config.pooler) {
    fields("projection_dim", config.pooler_width, kWidth);
  } else {
    fields.irrelevant("projection_dim");
  }
}

void image_table(const Fields& fields, Described<ImageEncoderConfig>& model) {
  ImageEncoderConfig& config = model.config;
  dual_image_fields(fields, model, {768, 3072, 12, kActivation, kEpsilon}, 32);
  if (config.projection > 0) {
    fields("projection_dim", config.projection, kWidth);
  } else {
    fields.irrelevant("projection_dim");
  }
}

WeightMap text_map(const TextEncoderConfig& /*config*/) {
  WeightMap map = dual_text_map();
  map.rules.push_back({"pooler", "text_projection"});
  return map;
}

WeightMap image_map(const ImageEncoderConfig& config) {
  WeightMap map = dual_image_map(config);
  map.rules.insert(map.rules.end(),
                   {{"embedding_norm", map.prefix + "pre_layrnorm"},  // as transformers spells it
                    {"pooler.norm", map.prefix + "post_layernorm"},
                    {"projection", "visual_projection"}});
  return map;
}

Described<TextEncoderConfig> text_base() {
  Described<TextEncoderConfig> model = dual_text_base();
  model.config.causal = true;
  model.config.head_bias = false;
  return model;
}

Described<ImageEncoderConfig> image_base() {
  Described<ImageEncoderConfig> model = dual_image_base();
  model.config.patch_bias = false;
  model.config.embedding_norm = true;
  model.config.pooler_kind = ImagePooler::norm;
  return model;
}

}  // namespace

EncoderFamily clip_text_family() {
  return {.model_type = "clip_text_model",
          .classes = {{.name = "CLIPTextModelWithProjection", .pooler = true}, {.name = "CLIPTextModel"}},
          .base = text_base(),
          .table = text_table,
          .weight_map = text_map};
}

ImageFamily clip_vision_family() {
  return {.model_type = "clip_vision_model",
          .classes = {{.name = "CLIPVisionModelWithProjection", .pooler = true, .projection = true},
                      {.name = "CLIPVisionModel", .pooler = true}},
          .base = image_base(),
          .table = image_table,
          .weight_map = image_map};
}

}  // namespace qkv::models
