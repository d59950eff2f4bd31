#include "qkv/train/tasks/image/image_scores.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "qkv/base/error.h"
#include "qkv/base/parallel.h"
#include "qkv/train/ranks/division.h"

namespace qkv::train {
namespace {

constexpr int64_t kTop = 5;

// The negative logarithm of the label's probability.
double nll_of(std::span<const float> logits, size_t label) {
  const double largest = static_cast<double>(std::ranges::max(logits));
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  return largest + std::log(sum) - static_cast<double>(logits[label]);
}

// The number of classes that come before the label in descending order of logits.
int64_t rank_of(std::span<const float> logits, size_t label) {
  int64_t rank = 0;
  for (size_t i = 0; i < logits.size(); ++i)
    rank += logits[i] > logits[label] || (logits[i] == logits[label] && i < label) ? 1 : 0;
  return rank;
}

// f32 [count, channels, height, width]: the images from `begin` on.
Tensor pixels_of(const data::ImageSet& set, int64_t begin, int64_t count,
                 const models::ImageProcessor& processor) {
  Tensor pixels = Tensor::empty({count, set.channels, set.height, set.width});
  parallel_for(count, 16, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i)
      write_pixels(set.image(begin + i), set.channels, processor, pixels.data() + i * set.image_bytes());
  });
  return pixels;
}

}  // namespace

void write_pixels(std::span<const uint8_t> image, int64_t channels, const models::ImageProcessor& processor,
                  float* to) {
  const size_t plane = image.size() / static_cast<size_t>(channels);
  for (int64_t c = 0; c < channels; ++c) {
    const std::array<float, 256>& values = processor.values(c);
    for (const uint8_t level : image.subspan(static_cast<size_t>(c) * plane, plane)) *to++ = values[level];
  }
}

std::optional<ImageScores> score_images(const models::ImageEncoder& model,
                                        const models::ImageProcessor& processor, const data::ImageSet& set,
                                        int64_t batch_images, const EvaluationRequest& request) {
  const size_t classes = model.config().labels.size();
  if (set.classes.size() != classes || set.size() == 0) {
    throw UsageError(concat("images to score: expected images of ", classes, " classes, found ", set.size(),
                            " images of ", set.classes.size(), " classes"));
  }
  ImageScores scores{.images = set.size()};
  scores.confusion.assign(classes, std::vector<int64_t>(classes));
  int64_t hits = 0, near = 0;
  // Of each image, the loss, the rank of its class and the class with the largest logit.
  const auto score = [&](int64_t batch) {
    const int64_t begin = batch * batch_images, count = std::min(batch_images, set.size() - begin);
    nn::ForwardContext context;
    const Variable hidden = model(pixels_of(set, begin, count, processor), context);
    const Offsets offsets = Offsets::uniform(count, model.config().tokens());
    const Tensor logits = to_host(model.classifier_logits(hidden, offsets).value());
    std::vector<double> result;
    for (int64_t i = 0; i < count; ++i) {
      const auto row = logits.values().subspan(static_cast<size_t>(i) * classes, classes);
      const auto label = static_cast<size_t>(set.labels[static_cast<size_t>(begin + i)]);
      result.push_back(nll_of(row, label));
      result.push_back(static_cast<double>(rank_of(row, label)));
      result.push_back(static_cast<double>(std::ranges::max_element(row) - row.begin()));
    }
    return pack(result);
  };
  const auto take = [&](int64_t batch, std::string_view result) {
    const std::vector<double> values = unpack<double>(result);
    auto label = set.labels.begin() + batch * batch_images;
    for (size_t at = 0; at < values.size(); at += 3, ++label) {
      scores.loss += values[at];
      hits += values[at + 1] == 0 ? 1 : 0;
      near += values[at + 1] < kTop ? 1 : 0;
      ++scores.confusion[static_cast<size_t>(*label)][static_cast<size_t>(values[at + 2])];
    }
  };
  const int64_t batches = (set.size() + batch_images - 1) / batch_images;
  if (!divide(*request.ranks, request.stop, batches, score, take)) return std::nullopt;
  const auto images = static_cast<double>(set.size());
  scores.loss /= images;
  scores.accuracy = static_cast<double>(hits) / images;
  scores.top5_accuracy = static_cast<double>(near) / images;
  return scores;
}

}  // namespace qkv::train
