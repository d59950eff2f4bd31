#include "qkv/models/shape.h"

#include <array>
#include <utility>

#include "qkv/base/error.h"
#include "qkv/base/field_text.h"
#include "qkv/models/validate.h"

namespace qkv::models {
namespace {

// The single list of fields.
template <class Shape, class Visitor>
void visit_shape(Shape& shape, const Visitor& visitor) {
  visitor("layers", shape.layers);
  visitor("d_model", shape.d_model);
  visitor("heads", shape.heads);
  visitor("key_heads", shape.key_heads);
  visitor("d_ff", shape.d_ff);
  visitor("experts", shape.experts);
  visitor("experts_per_token", shape.experts_per_token);
  visitor("max_positions", shape.max_positions);
  visitor("dropout", shape.dropout);
  visitor("attention_dropout", shape.attention_dropout);
  visitor("drop_path", shape.drop_path);
}

struct Preset {
  std::string_view name;
  int64_t layers, d_model;
};

// d_ff is 4 d_model, and heads have 64 features.
constexpr std::array<Preset, 5> kPresets{
    {{"tiny", 2, 128}, {"mini", 4, 256}, {"small", 4, 512}, {"medium", 8, 512}, {"base", 12, 768}}};

// Layers of this shape; `layer` has the other options.
nn::StackOptions blocks(const ModelShape& shape, nn::LayerOptions layer) {
  layer.d_model = shape.d_model;
  layer.heads = shape.heads;
  layer.d_ff = shape.d_ff;
  layer.dropout = shape.dropout;
  layer.attention_dropout = shape.attention_dropout;
  return {.layers = nn::alike(shape.layers, layer),
          .final_norm = layer.norm == nn::NormPlacement::pre,
          .drop_path = shape.drop_path};
}

void refuse_others(const ModelShape& shape, const char* blocks) {
  if (shape.experts != 0)
    throw UsageError(concat("experts: expected 0 in the blocks of ", blocks, ", found ", shape.experts));
  if (shape.key_heads == 0 || shape.key_heads == shape.heads) return;
  throw UsageError(concat("key_heads: expected 0 or ", shape.heads, " in the blocks of ", blocks, ", found ",
                          shape.key_heads));
}

std::vector<int32_t> ids(int32_t id) { return id < 0 ? std::vector<int32_t>{} : std::vector<int32_t>{id}; }

}  // namespace

void ModelShape::validate() const {
  require_at_least("layers", 1, layers, nn::kMaxLayers);
  require_at_least("d_model", 1, d_model);
  require_at_least("heads", 1, heads, kMaxHeads);
  require_at_least("key_heads", 0, key_heads, kMaxHeads);
  require_at_least("d_ff", 1, d_ff);
  nn::ExpertOptions{.count = experts, .per_token = experts_per_token}.validate();
  require_at_least("max_positions", 1, max_positions);
  if (d_model % heads != 0)
    throw UsageError(concat("heads: expected a divisor of d_model ", d_model, ", found ", heads));
  if (key_heads > 0 && heads % key_heads != 0)
    throw UsageError(concat("key_heads: expected a divisor of heads ", heads, ", found ", key_heads));
  require_rate("dropout", dropout);
  require_rate("attention_dropout", attention_dropout);
  require_rate("drop_path", drop_path);
}

ModelShape shape_preset(std::string_view name) {
  std::string known;
  for (const Preset& entry : kPresets) {
    if (entry.name == name) {
      return {.layers = entry.layers,
              .d_model = entry.d_model,
              .heads = entry.d_model / 64,
              .d_ff = 4 * entry.d_model};
    }
    known += concat(known.empty() ? "" : ", ", entry.name);
  }
  throw UsageError(concat("preset: expected one of ", known, ", found '", name, "'"));
}

std::vector<std::string> shape_preset_names() {
  std::vector<std::string> names;
  for (const Preset& entry : kPresets) names.emplace_back(entry.name);
  return names;
}

bool set_field(ModelShape& shape, std::string_view name, std::string_view value) {
  bool found = false;
  visit_shape(shape, [&](std::string_view field, auto& member) {
    if (field != name) return;
    parse_field(name, value, member);
    found = true;
  });
  return found;
}

std::vector<std::pair<std::string, std::string>> fields(const ModelShape& shape) {
  std::vector<std::pair<std::string, std::string>> list;
  visit_shape(
      shape, [&](std::string_view name, const auto& member) { list.emplace_back(name, field_text(member)); });
  return list;
}

TextEncoderConfig bert(const ModelShape& shape, int64_t vocabulary) {
  shape.validate();
  refuse_others(shape, "BERT");
  constexpr float kEpsilon = 1e-12f;
  return {
      .vocabulary = vocabulary,
      .max_positions = shape.max_positions,
      .embedding = {.d_model = shape.d_model,
                    .positions = {.kind = nn::PositionKind::learned, .max_positions = shape.max_positions},
                    .token_types = 2,
                    .norm = true,
                    .epsilon = kEpsilon,
                    .dropout = shape.dropout},
      .encoder = blocks(shape, {.activation = Activation::gelu_exact, .epsilon = kEpsilon})};
}

LanguageModelConfig gpt2(const ModelShape& shape, int64_t vocabulary, int32_t bos_id, int32_t eos_id) {
  shape.validate();
  refuse_others(shape, "GPT-2");
  return {
      .vocabulary = vocabulary,
      .max_positions = shape.max_positions,
      .embedding = {.d_model = shape.d_model,
                    .positions = {.kind = nn::PositionKind::learned, .max_positions = shape.max_positions},
                    .dropout = shape.dropout},
      .decoder = blocks(
          shape,
          {.activation = Activation::gelu_tanh, .norm = nn::NormPlacement::pre, .reads_memory = false}),
      .bos_ids = ids(bos_id),
      .eos_ids = ids(eos_id)};
}

LanguageModelConfig llama(const ModelShape& shape, int64_t vocabulary, int32_t bos_id, int32_t eos_id) {
  shape.validate();
  return {.vocabulary = vocabulary,
          .max_positions = shape.max_positions,
          .embedding = {.d_model = shape.d_model,
                        .positions = {},  // attention applies them
                        .dropout = shape.dropout},
          .decoder = blocks(shape, {.key_heads = shape.key_heads,
                                    .activation = Activation::silu,
                                    .gated = true,
                                    .feed_forward_bias = false,
                                    .experts = {.count = shape.experts, .per_token = shape.experts_per_token},
                                    .norm = nn::NormPlacement::pre,
                                    .norm_kind = nn::NormKind::rms,
                                    .attention = {.bias = nn::ProjectionBiases::all(false),
                                                  .positions = {.kind = nn::PositionKind::rotary,
                                                                .max_positions = shape.max_positions}},
                                    .reads_memory = false}),
          .bos_ids = ids(bos_id),
          .eos_ids = ids(eos_id)};
}

ImageEncoderConfig vit(const ModelShape& shape, int64_t channels, int64_t side, int64_t patch,
                       std::vector<std::string> labels) {
  shape.validate();
  refuse_others(shape, "ViT");
  return {
      .channels = channels,
      .height = side,
      .width = side,
      .patch = patch,
      .encoder = blocks(
          shape, {.activation = Activation::gelu_exact, .norm = nn::NormPlacement::pre, .epsilon = 1e-12f}),
      .dropout = shape.dropout,
      .labels = std::move(labels)};
}

}  // namespace qkv::models
