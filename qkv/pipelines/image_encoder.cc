#include "qkv/pipelines/image_encoder.h"

#include <algorithm>

#include "qkv/base/error.h"
#include "qkv/base/parallel.h"
#include "qkv/models/hub/pretrained.h"
#include "qkv/pipelines/row_results.h"

namespace qkv::pipelines {
namespace {

// Pictures to draw on are not larger than this.
constexpr int64_t kPictureSide = 896;

models::ImageProcessorConfig preprocessing(const std::filesystem::path& folder,
                                           const models::ImageEncoderConfig& model,
                                           const ImageEncoderOptions& options) {
  const models::ImageProcessorConfig config = models::load_image_processor(folder);
  if (model.channels != 3) {
    throw DataError(concat(folder.string(), ": expected a model of images with red, green and blue, found ",
                           model.channels, " channels"));
  }
  if (options.size) {
    const auto& [height, width] = *options.size;
    if (height < 1 || width < 1 || height % model.patch != 0 || width % model.patch != 0) {
      throw UsageError(concat("image size: expected multiples of the patches' ", model.patch, ", found ",
                              height, " x ", width));
    }
    return config.sized(*options.size);
  }
  if (config.size() != models::ImageSize{model.height, model.width}) {
    throw DataError(concat((folder / "preprocessor_config.json").string(),
                           ": expected every image to become ", model.height, " x ", model.width,
                           ", as the model's are, found ",
                           config.size() ? concat(config.size()->height, " x ", config.size()->width)
                                         : std::string("no one size")));
  }
  return config;
}

// A picture to draw on: the part that preprocessing leaves.
data::Image picture_of(const data::Image& image, const models::ImageProcessorConfig& config) {
  if (config.crop) {
    const auto& [height, width] = *config.crop;
    const int64_t times = std::max<int64_t>(
        std::min({image.height / height, image.width / width, kPictureSide / std::max(height, width)}), 1);
    return models::ImageProcessor(config.sized({times * height, times * width})).resize_and_crop(image);
  }
  const int64_t longest = std::max(image.height, image.width);
  if (longest <= kPictureSide) return image;
  const auto side = [&](int64_t length) { return std::max<int64_t>(length * kPictureSide / longest, 1); };
  return data::resize(image, side(image.height), side(image.width), data::Resampling::bilinear);
}

}  // namespace

ImageEncoderPipeline::ImageEncoderPipeline(const std::filesystem::path& folder,
                                           const ImageEncoderOptions& options)
    : model_(models::load_image_encoder(folder, options.load)),
      processor_(preprocessing(folder, model_->config(), options)),
      batch_tokens_(options.batch_tokens) {}

template <class Use, class Refuse>
void ImageEncoderPipeline::run(std::span<const std::string> paths, const Use& use,
                               const Refuse& refuse) const {
  const models::ImageSize size = *processor_.config().size();
  const int64_t tokens = model_->config().tokens(size), numbers = 3 * size.height * size.width;
  const auto most = static_cast<size_t>(std::max<int64_t>(batch_tokens_ / tokens, 1));
  for (size_t begin = 0; begin < paths.size(); begin += most) {
    const auto batch = paths.subspan(begin, std::min(most, paths.size() - begin));
    std::vector<data::Image> seen(batch.size());
    std::vector<std::string> errors(batch.size());
    parallel_for(std::ssize(batch), 1, [&](int64_t first, int64_t last) {
      for (auto i = static_cast<size_t>(first); i < static_cast<size_t>(last); ++i) {
        try {
          seen[i] = processor_.resize_and_crop(data::read_image(batch[i]));
        } catch (const Error& error) {
          errors[i] = error.what();
        }
      }
    });
    std::vector<size_t> good;
    for (size_t i = 0; i < batch.size(); ++i) {
      errors[i].empty() ? good.push_back(i) : refuse(begin + i, errors[i]);
    }
    if (good.empty()) continue;
    const Tensor pixels = Tensor::empty({std::ssize(good), 3, size.height, size.width});
    parallel_for(std::ssize(good), 1, [&](int64_t first, int64_t last) {
      for (int64_t k = first; k < last; ++k) {
        processor_.normalize(seen[good[static_cast<size_t>(k)]], pixels.data() + k * numbers);
      }
    });
    nn::ForwardContext context;
    const Tensor hidden = (*model_)(pixels, context, models::OtherSizes::interpolated).value();
    for (size_t k = 0; k < good.size(); ++k) {
      use(begin + good[k], hidden.slice_rows(static_cast<int64_t>(k) * tokens, tokens));
    }
  }
}

std::vector<Classified> ImageEncoderPipeline::classify(std::span<const std::string> paths) const {
  const std::vector<std::string>& labels = model_->config().labels;
  if (labels.empty())
    throw UsageError("classify: expected a model that labels images, found one that does not");
  std::vector<Classified> results(paths.size());
  run(
      paths,
      [&](size_t i, const Tensor& hidden) {
        const Variable logits = model_->labels(hidden, Offsets::uniform(1, hidden.rows()));
        results[i].labels = ranked(probabilities(logits, model_->config().problem).values(), labels);
      },
      [&](size_t i, const std::string& error) { results[i].error = error; });
  return results;
}

std::vector<Embedded> ImageEncoderPipeline::embed(std::span<const std::string> paths,
                                                  const EmbedOptions& options) const {
  if (options.pooling == Pooling::pooler && !model_->config().pooler) {
    throw UsageError("embed: expected a model with a pooler, found one without");
  }
  std::vector<Embedded> results(paths.size());
  run(
      paths, [&](size_t i, const Tensor& hidden) { results[i].values = embedded(hidden, options, *model_); },
      [&](size_t i, const std::string& error) { results[i].error = error; });
  return results;
}

ImageAttention ImageEncoderPipeline::attention(const data::Image& image) const {
  const models::ImageEncoderConfig& config = model_->config();
  const models::ImageSize size = *processor_.config().size();
  ImageAttention result{.picture = picture_of(image, processor_.config()),
                        .own_tokens = {"[CLS]"},
                        .patches = {size.height / config.patch, size.width / config.patch},
                        .attentions = {},
                        .labels = {}};
  if (config.distilled) result.own_tokens.emplace_back("[DISTILL]");
  nn::ForwardContext context;
  context.observer = [&](const std::string& name, const std::vector<Tensor>& weights) {
    result.attentions.push_back({name, weights.front()});
  };
  const Variable hidden =
      (*model_)(processor_(std::span(&image, 1)), context, models::OtherSizes::interpolated);
  if (!config.labels.empty()) {
    const Variable logits = model_->labels(hidden, Offsets::uniform(1, hidden.value().rows()));
    result.labels = ranked(probabilities(logits, config.problem).values(), config.labels);
  }
  return result;
}

}  // namespace qkv::pipelines
