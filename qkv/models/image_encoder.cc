#include "qkv/models/image_encoder.h"

#include <algorithm>

#include "qkv/base/scope.h"
#include "qkv/models/attention_pooler.h"
#include "qkv/models/patch_dropout.h"
#include "qkv/models/position_grid.h"
#include "qkv/models/rows_at.h"
#include "qkv/models/validate.h"
#include "qkv/ops/activation.h"
#include "qkv/ops/embedding.h"
#include "qkv/ops/general/prepend.h"
#include "qkv/ops/general/scale.h"
#include "qkv/ops/norm.h"
#include "qkv/ops/require.h"

namespace qkv::models {
namespace {

const ImageEncoderConfig& validated(const ImageEncoderConfig& config) {
  config.validate();
  return config;
}

std::optional<nn::Linear> head(bool wanted, int64_t inputs, int64_t outputs, bool bias = true) {
  if (!wanted) return std::nullopt;
  return std::optional<nn::Linear>(std::in_place,
                                   nn::LinearOptions{.inputs = inputs, .outputs = outputs, .bias = bias});
}

std::optional<nn::Norm> norm(bool wanted, const nn::StackOptions& stack) {
  if (!wanted) return std::nullopt;
  return std::optional<nn::Norm>(std::in_place, stack.first().norm_options());
}

nn::Parameter vectors(int64_t count, int64_t d_model) {
  return {Shape{count, d_model}, {nn::Initializer::Kind::normal, 0.02f}};
}

// 0, 1, ..., period - 1, repeated: i32 [count * period].
Tensor counted(int64_t count, int64_t period) { return nn::position_ids(Offsets::uniform(count, period)); }

// The input of the encoder: patches [images * patches of each, features], and the positions of all tokens,
// i32.
struct Input {
  Tensor patches, positions;
  int64_t tokens = 0;  // of each image
};

// `patches`: all patches of the images, row by row.
Input without_dropped(const Tensor& patches, int64_t images, int64_t of_image, int64_t own_tokens,
                      const kernels::Dropout& dropout) {
  const std::vector<int32_t> kept = kept_patches(images, of_image, dropout);
  const int64_t each = kept_count(of_image, dropout.rate), tokens = own_tokens + each;
  const int64_t features = patches.cols();
  Input input{.patches = Tensor::empty({images * each, features}),
              .positions = Tensor::empty({images * tokens}, DType::i32),
              .tokens = tokens};
  float* rows = input.patches.data();
  int32_t* positions = input.positions.data<int32_t>();
  auto patch = kept.begin();
  for (int64_t image = 0; image < images; ++image) {
    for (int32_t own = 0; own < own_tokens; ++own) *positions++ = own;
    for (int64_t i = 0; i < each; ++i, ++patch) {
      rows = std::copy_n(patches.data() + *patch * features, features, rows);
      *positions++ = static_cast<int32_t>(own_tokens + *patch - image * of_image);
    }
  }
  return input;
}

// The rows and columns that patches cover, which begin at the top left, as of a convolution without padding.
Tensor covered(const Tensor& pixels, int64_t side) {
  const int64_t height = pixels.dim(2), width = pixels.dim(3), down = height - height % side,
                across = width - width % side;
  if (down == height && across == width) return pixels;
  Tensor part = Tensor::empty({pixels.dim(0), pixels.dim(1), down, across});
  const auto all = pixels.values();
  float* to = part.data();
  for (int64_t plane = 0; plane < pixels.dim(0) * pixels.dim(1); ++plane) {
    for (int64_t row = 0; row < down; ++row)
      to = std::copy_n(all.begin() + (plane * height + row) * width, across, to);
  }
  return part;
}

}  // namespace

Tensor patchify(const Tensor& images, int64_t side) {
  const int rank = images.rank();
  if ((rank != 3 && rank != 4) || side < 1 || images.dim(rank - 2) % side != 0 ||
      images.dim(rank - 1) % side != 0) {
    throw ShapeError(
        concat("patchify: expected [channels, height, width], maybe of several images, whose height "
               "and width ",
               side, " divides, found ", images.shape()));
  }
  const int64_t width = images.dim(rank - 1), height = images.dim(rank - 2), channels = images.dim(rank - 3);
  const int64_t count = rank == 4 ? images.dim(0) : 1, down = height / side, across = width / side;
  const int64_t features = channels * side * side;
  Tensor patches =
      rank == 4 ? Tensor::empty({count, down, across, features}) : Tensor::empty({down, across, features});
  const auto pixels = images.values();
  float* to = patches.data();
  for (int64_t patch = 0; patch < count * down * across; ++patch) {
    const int64_t image = patch / (down * across), y = patch / across % down * side,
                  x = patch % across * side;
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t row = 0; row < side; ++row, to += side) {
        const int64_t from = ((image * channels + c) * height + y + row) * width + x;
        std::copy_n(pixels.begin() + from, side, to);
      }
    }
  }
  return patches;
}

void ImageEncoderConfig::validate() const {
  require_at_least("channels", 1, channels);
  require_at_least("patch", 1, patch);
  for (const auto& [name, size] : {std::pair{"height", height}, {"width", width}}) {
    require_at_least(name, patch, size);
  }
  validate_stack(encoder);
  require_rate("patch_dropout", patch_dropout);
  if (!class_token && (distilled || !labels.empty() || (pooler && pooler_kind != ImagePooler::attention)))
    throw UsageError("class_token: expected one, which heads read, found none");
  require_at_least("projection", 0, projection);
  if (projection > 0 && !pooler) throw UsageError("projection: expected a pooler before it, found none");
  if (distillation_classifier && (!distilled || labels.empty())) {
    throw UsageError("distillation_classifier: expected a distillation token and labels, found none");
  }
}

ImageEncoder::ImageEncoder(const ImageEncoderConfig& config)
    : config_(validated(config)),
      class_token_(config.class_token ? vectors(1, config.encoder.d_model()) : nn::Parameter()),
      distillation_token_(config.distilled ? vectors(1, config.encoder.d_model()) : nn::Parameter()),
      positions_(vectors(config.tokens(), config.encoder.d_model())),
      patches_({.inputs = config.channels * config.patch * config.patch,
                .outputs = config.encoder.d_model(),
                .bias = config.patch_bias}),
      embedding_norm_(norm(config.embedding_norm, config.encoder)),
      encoder_(config.encoder),
      pooler_norm_(norm(config.pooler && config.pooler_kind == ImagePooler::norm, config.encoder)),
      pooler_(head(config.pooler && config.pooler_kind == ImagePooler::dense, config.encoder.d_model(),
                   config.encoder.d_model())),
      projection_(head(config.projection > 0, config.encoder.d_model(), config.projection, /*bias=*/false)),
      classifier_(head(!config.labels.empty(), config.encoder.d_model(), std::ssize(config.labels))),
      distillation_classifier_(
          head(config.distillation_classifier, config.encoder.d_model(), std::ssize(config.labels))) {
  if (config.pooler && config.pooler_kind == ImagePooler::attention)
    attention_pooler_ = std::make_shared<const AttentionPooler>(config.encoder.first());
}

Variable ImageEncoder::positions_of(ImageSize size) const {
  if (size == ImageSize{config_.height, config_.width}) return positions_.variable;
  if (Tape::records({positions_.variable})) {
    throw UsageError("positions: expected images of the model's size in training, found another size");
  }
  const int64_t side = config_.patch;
  const Tensor& positions = positions_.variable.value();
  return from_host(interpolate_positions(to_host(positions), config_.own_tokens(),
                                         {config_.height / side, config_.width / side},
                                         {size.height / side, size.width / side}),
                   positions.device());
}

Variable ImageEncoder::operator()(const Tensor& pixels, nn::ForwardContext& context,
                                  OtherSizes other_sizes) const {
  const bool any_size = other_sizes == OtherSizes::interpolated && pixels.rank() == 4 &&
                        std::min(pixels.dim(2), pixels.dim(3)) > 0 && pixels.dim(2) % config_.patch == 0 &&
                        pixels.dim(3) % config_.patch == 0;
  const ImageSize size =
      any_size ? ImageSize{pixels.dim(2), pixels.dim(3)} : ImageSize{config_.height, config_.width};
  const Shape expected{pixels.rank() > 0 ? pixels.dim(0) : 0, config_.channels, size.height, size.width};
  if (pixels.shape() != expected) {
    throw ShapeError(concat("images: expected [images, ", config_.channels, ", ", size.height, ", ",
                            size.width, "], found ", pixels.shape()));
  }
  const NameScope scope("encoder");
  const int64_t images = pixels.dim(0), own_tokens = config_.own_tokens(), tokens = config_.tokens(size);
  const int64_t of_image = tokens - own_tokens;
  Tensor patches = patchify(covered(pixels, config_.patch), config_.patch);
  patches = patches.reshape({images * of_image, patches.dim(3)});
  Input input{.patches = patches, .positions = counted(images, tokens), .tokens = tokens};
  if (context.training && config_.patch_dropout > 0) {
    input = without_dropped(patches, images, of_image, own_tokens, context.drop_path(config_.patch_dropout));
  }
  Variable x = patches_(from_host(input.patches, positions_.variable.value().device()), context);
  // Prepended before the class token, which therefore comes first in the end.
  if (config_.distilled) x = prepend(distillation_token_.variable, x, images);
  if (config_.class_token) x = prepend(class_token_.variable, x, images);
  const Dropout dropout = context.dropout(config_.dropout);
  x = residual(x, embedding(positions_of(size), input.positions, {}, {}));
  if (embedding_norm_) x = (*embedding_norm_)(x);
  if (dropout.active()) x = activate(x, Activation::identity, dropout);
  return encoder_(x, Offsets::uniform(images, input.tokens), context);
}

Variable ImageEncoder::pooled(const Variable& hidden, const Offsets& offsets) const {
  nn::ForwardContext context;
  return pooled(hidden, offsets, context);
}

Variable ImageEncoder::pooled(const Variable& hidden, const Offsets& offsets,
                              nn::ForwardContext& context) const {
  if (!config_.pooler) throw UsageError("expected a model with a pooler, found none");
  const auto first = [&] { return rows_at(hidden, config_.encoder.d_model(), offsets); };
  const Variable pooled = attention_pooler_ ? (*attention_pooler_)(hidden, offsets, context)
                          : pooler_norm_    ? (*pooler_norm_)(first())
                                            : (*pooler_)(first(), config_.pooler_activation);
  return projection_ ? (*projection_)(pooled) : pooled;
}

Variable ImageEncoder::classifier_logits(const Variable& hidden, const Offsets& offsets) const {
  if (!classifier_) throw UsageError("expected a model with labels, found none");
  Variable logits = (*classifier_)(rows_at(hidden, config_.encoder.d_model(), offsets));
  if (!distillation_classifier_) return logits;
  return scaled(
      residual(logits, (*distillation_classifier_)(rows_at(hidden, config_.encoder.d_model(), offsets, 1))),
      0.5f);
}

void ImageEncoder::visit(const nn::ParameterVisitor& visitor) const {
  if (class_token_.defined()) visitor("class_token", class_token_);
  if (distillation_token_.defined()) visitor("distillation_token", distillation_token_);
  visitor("positions", positions_);
  nn::visit_part(visitor, "patches", patches_);
  if (embedding_norm_) nn::visit_part(visitor, "embedding_norm", *embedding_norm_);
  nn::visit_part(visitor, "encoder", encoder_);
  if (pooler_norm_) nn::visit_part(visitor, "pooler.norm", *pooler_norm_);
  if (attention_pooler_) nn::visit_part(visitor, "pooler", *attention_pooler_);
  if (pooler_) nn::visit_part(visitor, "pooler", *pooler_);
  if (projection_) nn::visit_part(visitor, "projection", *projection_);
  if (classifier_) nn::visit_part(visitor, "classifier", *classifier_);
  if (distillation_classifier_) {
    nn::visit_part(visitor, "distillation_classifier", *distillation_classifier_);
  }
}

}  // namespace qkv::models
