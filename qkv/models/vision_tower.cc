#include "qkv/models/vision_tower.h"

#include <cmath>

#include "qkv/models/validate.h"
#include "qkv/ops/embedding.h"
#include "qkv/ops/general/pooling.h"
#include "qkv/ops/general/reshape.h"

namespace qkv::models {
namespace {

const VisionTowerConfig& validated(const VisionTowerConfig& config) {
  config.validate();
  return config;
}

int64_t merged_width(const VisionTowerConfig& config) {
  const bool wide = config.merge == PatchMerge::concatenated;
  return config.encoder.encoder.d_model() * (wide ? config.merge_side * config.merge_side : 1);
}

nn::Linear linear(int64_t inputs, const VisionTowerConfig& config) {
  return nn::Linear({.inputs = inputs, .outputs = config.d_model, .bias = config.bias});
}

// Rows and columns of patches above and left of an image that was resized to fit into these.
ImageSize padding_of(ImageSize image, ImageSize patches) {
  // transformers' int(round(length * scale, 7)).
  const auto scaled = [](int64_t length, int64_t to, int64_t from) {
    const double scale = static_cast<double>(to) / static_cast<double>(from);
    return static_cast<int64_t>(std::round(static_cast<double>(length) * scale * 1e7) / 1e7);
  };
  const auto ratio = [](ImageSize size) {
    return static_cast<double>(size.width) / static_cast<double>(size.height);
  };
  if (ratio(image) > ratio(patches))
    return {(patches.height - scaled(image.height, patches.width, image.width)) / 2, 0};
  return {0, (patches.width - scaled(image.width, patches.height, image.height)) / 2};
}

}  // namespace

int64_t VisionTowerConfig::rows() const {
  const int64_t tokens = encoder.tokens() - (drops_class_token ? encoder.own_tokens() : 0);
  return tokens / (merge_side * merge_side);
}

void VisionTowerConfig::validate() const {
  encoder.validate();
  require_at_least("d_model", 1, d_model);
  require_at_least("merge_side", 1, merge_side);
  if (drops_class_token && encoder.own_tokens() == 0)
    throw UsageError("drops_class_token: expected an encoder with a class token, found one without");
  if (!resolutions.empty() && (merge_side > 1 || (encoder.own_tokens() > 0 && !drops_class_token)))
    throw UsageError("resolutions: expected patches alone, found merged ones or a class token");
  if (merge_side == 1) return;
  if (encoder.own_tokens() > 0 && !drops_class_token)
    throw UsageError("merge_side: expected patches alone, found a class token");
  const int64_t down = encoder.height / encoder.patch, across = encoder.width / encoder.patch;
  if (down % merge_side != 0 || across % merge_side != 0) {
    throw UsageError(concat("merge_side: expected a divisor of the ", down, " x ", across, " patches, found ",
                            merge_side));
  }
}

VisionTower::VisionTower(const VisionTowerConfig& config)
    : config_(validated(config)), encoder_(config.encoder), linear_1_(linear(merged_width(config), config)) {
  if (config.norm)
    norm_.emplace(nn::NormOptions{
        .features = merged_width(config), .kind = config.norm_kind, .epsilon = config.epsilon});
  if (config.activation) linear_2_.emplace(linear(config.d_model, config));
  if (!config.resolutions.empty())
    newline_ = nn::Parameter(Shape{config.d_model}, {nn::Initializer::Kind::normal, 0.02f});
}

// The patches that are used, those of a square side by side, and merged.
Variable VisionTower::merged(const Variable& hidden, int64_t images) const {
  const ImageEncoderConfig& encoder = config_.encoder;
  const int64_t dropped = config_.drops_class_token ? encoder.own_tokens() : 0, side = config_.merge_side;
  if (dropped == 0 && side == 1) return hidden;
  const int64_t tokens = encoder.tokens(), first = encoder.own_tokens();
  const int64_t down = encoder.height / encoder.patch, across = encoder.width / encoder.patch;
  std::vector<int32_t> order;
  for (int64_t image = 0; image < images; ++image) {
    for (int64_t patch = 0; patch < down * across; ++patch) {
      const int64_t square = patch / (side * side), within = patch % (side * side);
      const int64_t y = square / (across / side) * side + within / side,
                    x = square % (across / side) * side + within % side;
      order.push_back(static_cast<int32_t>(image * tokens + first + y * across + x));
    }
  }
  const int64_t rows = std::ssize(order);
  const Variable ordered = embedding(hidden, Tensor::from(order, {rows}), {}, {});
  if (side == 1) return ordered;
  const int64_t squares = rows / (side * side);
  return config_.merge == PatchMerge::averaged ? segment_mean(ordered, Offsets::uniform(squares, side * side))
                                               : reshape(ordered, {squares, merged_width(config_)});
}

Tensor VisionTower::operator()(const Tensor& pixels) const {
  nn::ForwardContext context;
  Variable rows = merged(encoder_(pixels, context), pixels.dim(0));
  if (norm_) rows = (*norm_)(rows);
  if (!linear_2_) return linear_1_(rows).value();
  return (*linear_2_)(linear_1_(rows, *config_.activation)).value();
}

std::vector<int32_t> VisionTower::row_order(int64_t grid_rows, int64_t grid_columns, ImageSize image) const {
  if (!newline_.defined()) return {};
  const ImageEncoderConfig& encoder = config_.encoder;
  const int64_t down = encoder.height / encoder.patch, across = encoder.width / encoder.patch;
  const int64_t height = grid_rows * down, width = grid_columns * across, of_tile = down * across;
  const auto [top, left] = padding_of(image, {height, width});
  std::vector<int32_t> order;
  const auto add = [&](int64_t row) { order.push_back(static_cast<int32_t>(row)); };
  const int64_t of_grid = height * width;
  for (int64_t row = 0; row < of_tile; ++row) add(of_grid + row);
  for (int64_t y = top; y < height - top; ++y) {
    for (int64_t x = left; x < width - left; ++x) {
      const int64_t tile = y / down * grid_columns + x / across;
      add(tile * of_tile + y % down * across + x % across);
    }
    add(of_grid + of_tile);
  }
  return order;
}

Tensor VisionTower::in_order(const Tensor& rows, const std::vector<int32_t>& order) const {
  if (order.empty()) return rows;
  Tensor all = Tensor::empty({rows.rows() + 1, rows.cols()}, DType::f32, rows.device());
  all.slice_rows(0, rows.rows()).copy_from(rows);
  all.slice_rows(rows.rows(), 1).copy_from(newline_.variable.value().reshape({1, rows.cols()}));
  return embedding(all, Tensor::from(order, {std::ssize(order)}), {}, {}).value();
}

void VisionTower::visit_projector(const nn::ParameterVisitor& visitor) const {
  if (norm_) nn::visit_part(visitor, "projector.norm", *norm_);
  nn::visit_part(visitor, "projector.linear_1", linear_1_);
  if (linear_2_) nn::visit_part(visitor, "projector.linear_2", *linear_2_);
  if (newline_.defined()) visitor("projector.newline", newline_);
}

void VisionTower::visit(const nn::ParameterVisitor& visitor) const {
  nn::visit_part(visitor, "encoder", encoder_);
  visit_projector(visitor);
}

}  // namespace qkv::models
