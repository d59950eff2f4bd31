// ViT (Dosovitskiy et al. 2021) and DeiT (Touvron et al. 2021), which adds a distillation token: pre-norm
// encoders of patches.

#include <array>

#include "qkv/base/error.h"
#include "qkv/models/families/encoders/bert_family.h"
#include "qkv/models/hub/family.h"

namespace qkv::models {
namespace {

struct Words {
  const char* model_type;
  std::string base, classifier;  // classes
  std::string with_teacher;      // class with a distillation classifier; empty: none
  bool distilled;
};

const Words& vit() {
  static const Words kWords{"vit", "ViTModel", "ViTForImageClassification", "", false};
  return kWords;
}

const Words& deit() {
  static const Words kWords{"deit", "DeiTModel", "DeiTForImageClassification",
                            "DeiTForImageClassificationWithTeacher", true};
  return kWords;
}

template <class Fields, class Config>
void visit_vit_fields(const Fields& fields, Config& config, Blocks& blocks) {
  fields("image_size", config.height, 224);
  fields("patch_size", config.patch, 16);
  fields("num_channels", config.channels, 3);
  visit_block_fields(fields, blocks, 0);
}

ImageEncoderConfig parse(const ConfigReader& reader, const Words& words) {
  ImageEncoderConfig config{.distilled = words.distilled,
                            .encoder = {.final_norm = true},
                            .pooler_activation = reader.activation("pooler_act", "tanh")};
  Blocks blocks{.layer = {.norm = nn::NormPlacement::pre}};
  visit_vit_fields(FieldReader(reader), config, blocks);
  config.encoder.layers = blocks.list();
  config.width = config.height;
  config.dropout = blocks.layer.dropout;
  const std::vector<std::string> classes = reader.strings("architectures");
  const std::string name = classes.empty() ? words.base : classes.front();
  config.pooler = name == words.base;
  config.distillation_classifier = words.distilled && name == words.with_teacher;
  if (!config.pooler) {
    if (name != words.classifier && !config.distillation_classifier) {
      reader.reject("architectures", concat(words.base, words.distilled ? ", " + words.with_teacher : "",
                                            " or ", words.classifier));
    }
    config.labels = read_labels(reader);
    config.problem = read_problem_type(reader, config.labels.size());
  }
  reader.require_boolean("qkv_bias", true);
  reader.require_boolean("is_encoder_decoder", false);
  reader.require_integer("pooler_output_size", blocks.layer.d_model);
  // Of a masked-patch head, and of models with tokens.
  constexpr std::array<std::string_view, 2> kIrrelevant{"encoder_stride", "tie_word_embeddings"};
  reader.reject_unknown_model_fields(kIrrelevant);
  return config;
}

ConfigWriter serialize(const ImageEncoderConfig& config, const Words& words) {
  Blocks blocks = Blocks::of(config.encoder);
  const nn::LayerOptions& layer = blocks.layer;
  const bool fits = config.height == config.width && config.distilled == words.distilled &&
                    config.pooler == config.labels.empty() && config.encoder.final_norm &&
                    layer.norm == nn::NormPlacement::pre && layer.norm_kind == nn::NormKind::layer &&
                    !layer.gated && layer.attention.bias == nn::ProjectionBiases{} &&
                    layer.feed_forward_bias && layer.key_heads == 0 && layer.d_k == 0 && layer.d_v == 0 &&
                    has_plain_scores(layer) && layer.attention.positions.kind == nn::PositionKind::none;
  if (!fits) {
    throw UsageError(concat(words.model_type,
                            ": expected square images, pre-norm blocks with layer norms and "
                            "biases, and labels or a pooler, found another model"));
  }
  ConfigWriter writer(words.model_type, config.pooler                    ? words.base
                                        : config.distillation_classifier ? words.with_teacher
                                                                         : words.classifier);
  visit_vit_fields(FieldWriter(writer), config, blocks);
  writer.boolean("qkv_bias", true);
  if (config.pooler) writer.activation("pooler_act", config.pooler_activation);
  write_labels(config.labels, config.problem, writer);
  return writer;
}

WeightMap weight_map(const ImageEncoderConfig& config, const Words& words) {
  const std::string base = concat(words.model_type, "."), layer = base + "encoder.layer.#.";
  const int64_t d_model = config.encoder.d_model();
  // transformers 5 has other names for modules than for their tensors in files.
  const auto renamed = [&](const char* ours, const char* theirs, const char* module) {
    return WeightRule{.ours = concat("encoder.layers.#.", ours),
                      .theirs = layer + theirs,
                      .module = concat(base, "layers.#.", module)};
  };
  return {
      .rules = {{.ours = "class_token", .theirs = base + "embeddings.cls_token", .shape = {1, 1, d_model}},
                {.ours = "distillation_token",
                 .theirs = base + "embeddings.distillation_token",
                 .shape = {1, 1, d_model}},
                {.ours = "positions",
                 .theirs = base + "embeddings.position_embeddings",
                 .shape = {1, config.tokens(), d_model}},
                {.ours = "patches",
                 .theirs = base + "embeddings.patch_embeddings.projection",
                 .shape = {d_model, config.channels, config.patch, config.patch}},
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

}  // namespace

ImageFamily vit_family() {
  return {"vit", [](const ConfigReader& reader) { return parse(reader, vit()); },
          [](const ImageEncoderConfig& config) { return serialize(config, vit()); },
          [](const ImageEncoderConfig& config) { return weight_map(config, vit()); }};
}

ImageFamily deit_family() {
  return {"deit", [](const ConfigReader& reader) { return parse(reader, deit()); },
          [](const ImageEncoderConfig& config) { return serialize(config, deit()); },
          [](const ImageEncoderConfig& config) { return weight_map(config, deit()); }};
}

}  // namespace qkv::models
