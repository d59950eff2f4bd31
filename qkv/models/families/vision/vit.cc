// ViT (Dosovitskiy et al. 2021) and DeiT (Touvron et al. 2021), which adds a distillation token: pre-norm
// encoders of patches.

#include "qkv/base/error.h"
#include "qkv/models/families/encoders/bert_family.h"

namespace qkv::models {
namespace {

void table(const Fields& fields, Described<ImageEncoderConfig>& model) {
  auto& [config, layer, layers] = model;
  fields("image_size", config.height, 224);
  fields("patch_size", config.patch, 16);
  fields("num_channels", config.channels, 3);
  block_fields(fields, model, 0);
  if (config.pooler) fields("pooler_act", config.pooler_activation, "tanh");
  fields.expect("qkv_bias", true);
  fields.derive("qkv_bias", true);
  fields.expect("pooler_output_size", layer.d_model);
  // Of heads that the model lacks, and of models with tokens.
  fields.irrelevant("pooler_act encoder_stride tie_word_embeddings");
  config.width = config.height;
  config.dropout = layer.dropout;
}

template <bool distilled>
WeightMap weight_map(const ImageEncoderConfig& config) {
  const std::string base = distilled ? "deit." : "vit.", layer = base + "encoder.layer.#.";
  const int64_t d_model = config.encoder.d_model();
  // transformers 5 has other names for modules than for their tensors in files.
  const auto renamed = [&](const char* ours, const char* theirs, const char* module) {
    return WeightRule{.ours = concat("encoder.layers.#.", ours),
                      .theirs = layer + theirs,
                      .module = concat(base, "layers.#.", module)};
  };
  const auto shaped = [&](const char* ours, const char* theirs, const Shape& shape) {
    return WeightRule{.ours = ours, .theirs = concat(base, "embeddings.", theirs), .shape = shape};
  };
  return {.rules = {shaped("class_token", "cls_token", {1, 1, d_model}),
                    shaped("distillation_token", "distillation_token", {1, 1, d_model}),
                    shaped("positions", "position_embeddings", {1, config.tokens(), d_model}),
                    shaped("patches", "patch_embeddings.projection",
                           {d_model, config.channels, config.patch, config.patch}),
                    {"encoder.layers.#.self_attn_layer_norm", layer + "layernorm_before"},
                    renamed("self_attn.q_proj", "attention.attention.query", "attention.q_proj"),
                    renamed("self_attn.k_proj", "attention.attention.key", "attention.k_proj"),
                    renamed("self_attn.v_proj", "attention.attention.value", "attention.v_proj"),
                    renamed("self_attn.out_proj", "attention.output.dense", "attention.o_proj"),
                    {"encoder.layers.#.final_layer_norm", layer + "layernorm_after"},
                    renamed("fc1", "intermediate.dense", "mlp.fc1"),
                    renamed("fc2", "output.dense", "mlp.fc2"),
                    {"encoder.layer_norm", base + "layernorm"},
                    {"pooler", base + "pooler.dense"},
                    {"classifier", config.distillation_classifier ? "cls_classifier" : "classifier"},
                    {"distillation_classifier", "distillation_classifier"}},
          .prefix = base};
}

Described<ImageEncoderConfig> pre_norm(bool distilled) {
  return {.config = {.distilled = distilled, .encoder = {.final_norm = true}},
          .layer = {.norm = nn::NormPlacement::pre}};
}

}  // namespace

ImageFamily vit_family() {
  return {.model_type = "vit",
          .classes = {{.name = "ViTModel", .pooler = true},
                      {.name = "ViTForImageClassification", .labelled = ClassificationTarget::texts}},
          .base = pre_norm(false),
          .table = table,
          .weight_map = weight_map<false>};
}

ImageFamily deit_family() {
  return {.model_type = "deit",
          .classes = {{.name = "DeiTModel", .pooler = true},
                      {.name = "DeiTForImageClassification", .labelled = ClassificationTarget::texts},
                      {.name = "DeiTForImageClassificationWithTeacher",
                       .distillation_classifier = true,
                       .labelled = ClassificationTarget::texts}},
          .base = pre_norm(true),
          .table = table,
          .weight_map = weight_map<true>};
}

}  // namespace qkv::models
