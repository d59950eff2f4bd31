#include "qkv/pipelines/images/image_attention.h"

#include <algorithm>
#include <cmath>

#include "qkv/data/resize.h"
#include "qkv/pipelines/row_results.h"

namespace qkv::pipelines {
namespace {

constexpr int64_t kLongestSide = 896;  // pixels of the image under the overlay

// The part of the image that remains after preprocessing's crop.
data::Image image_to_draw_on(const data::Image& image, const models::ImageProcessorConfig& config) {
  if (config.crop) {
    const auto& [height, width] = *config.crop;
    const int64_t times = std::max<int64_t>(
        std::min({image.height / height, image.width / width, kLongestSide / std::max(height, width)}), 1);
    return models::ImageProcessor(config.sized({times * height, times * width})).resize_and_crop(image);
  }
  const int64_t longest = std::max(image.height, image.width);
  if (longest <= kLongestSide) return image;
  const auto side = [&](int64_t length) { return std::max<int64_t>(length * kLongestSide / longest, 1); };
  return data::resize(image, side(image.height), side(image.width), data::Resampling::bilinear);
}

// The top left part of an image, in shares of its sides.
data::Image top_left(const data::Image& image, double height, double width) {
  data::Image part{.height = std::max<int64_t>(std::llround(static_cast<double>(image.height) * height), 1),
                   .width = std::max<int64_t>(std::llround(static_cast<double>(image.width) * width), 1),
                   .pixels = {}};
  for (int64_t y = 0; y < part.height; ++y)
    part.pixels.insert(part.pixels.end(), image.row(y), image.row(y) + 3 * part.width);
  return part;
}

// [heads, queries, n] as the last rows of [heads, n + 1, n + 1], or, of one query, as the first one; each
// other token attends to itself.
Tensor with_pooling_token(const Tensor& weights) {
  const int64_t heads = weights.dim(0), queries = weights.dim(1), n = weights.dim(2);
  Tensor wider = Tensor::zeros({heads, n + 1, n + 1});
  const bool pools = queries != n;
  for (int64_t head = 0; head < heads; ++head) {
    float* to = wider.data() + head * (n + 1) * (n + 1);
    for (int64_t i = 0; i <= n; ++i) to[i * (n + 1) + i] = 1;
    for (int64_t query = 0; query < queries; ++query) {
      float* row = to + (pools ? 0 : query + 1) * (n + 1);
      row[0] = 0;
      for (int64_t key = 0; key < n; ++key) row[key + 1] = weights.data()[(head * queries + query) * n + key];
    }
  }
  return wider;
}

}  // namespace

ImageAttention capture_attention(const ImageEncoderPipeline& encoder, const data::Image& image) {
  const models::ImageEncoder& model = encoder.model();
  const models::ImageEncoderConfig& config = model.config();
  const models::ImageSize size = *encoder.processor().config().size();
  ImageAttention result{.image = image_to_draw_on(image, encoder.processor().config()),
                        .region = encoder.processor().region({image.height, image.width}),
                        .own_tokens = {},
                        .patches = {size.height / config.patch, size.width / config.patch},
                        .attentions = {},
                        .labels = {}};
  if (config.class_token) result.own_tokens.emplace_back("[CLS]");
  if (config.distilled) result.own_tokens.emplace_back("[DISTILL]");
  // Patches may not cover the last rows and columns.
  const auto covered = [&](int64_t side) {
    return static_cast<double>(side - side % config.patch) / static_cast<double>(side);
  };
  if (const double down = covered(size.height), across = covered(size.width); down < 1 || across < 1) {
    result.image = top_left(result.image, down, across);
    result.region.height *= down;
    result.region.width *= across;
  }
  nn::ForwardContext context;
  context.observer = [&](const std::string& name, const std::vector<Tensor>& weights) {
    result.attentions.push_back({name, to_host(weights.front())});
  };
  const Variable hidden =
      model(encoder.processor()(std::span(&image, 1)), context, models::OtherSizes::interpolated);
  if (!config.class_token && config.pooler) {
    result.own_tokens.emplace_back("[POOL]");
    model.pooled(hidden, Offsets::uniform(1, hidden.value().rows()), context);
    for (search::CapturedAttention& one : result.attentions) one.weights = with_pooling_token(one.weights);
  }
  if (!config.labels.empty()) {
    const Variable logits = model.classifier_logits(hidden, Offsets::uniform(1, hidden.value().rows()));
    result.labels = ranked(probabilities(logits, config.problem).values(), config.labels);
  }
  return result;
}

}  // namespace qkv::pipelines
