#include "qkv/pipelines/images/image_encoder.h"

#include <algorithm>

#include "qkv/base/error.h"
#include "qkv/base/parallel.h"
#include "qkv/tensor/storage.h"

namespace qkv::pipelines {
namespace {

models::ImageProcessorConfig preprocessing_of(const LoadedImageEncoder& encoder,
                                              const ImageEncoderOptions& options) {
  const models::ImageEncoderConfig& model = encoder.model->config();
  models::ImageProcessorConfig config = encoder.preprocessing;
  if (model.channels != 1 && model.channels != 3) {
    throw DataError(concat(encoder.folder.string(),
                           ": expected a model of 3 channels (RGB) or 1 (grey), found ", model.channels,
                           " channels"));
  }
  config.channels = model.channels;
  if (options.size) {
    const auto& [height, width] = *options.size;
    if (height < 1 || width < 1 || height % model.patch != 0 || width % model.patch != 0 ||
        height > data::kMaxImagePixels / width) {
      throw UsageError(concat("image size: expected multiples of the patches' ", model.patch, ", of at most ",
                              data::kMaxImagePixels, " pixels, found ", height, " x ", width));
    }
    return config.sized(*options.size);
  }
  if (config.size() != models::ImageSize{model.height, model.width}) {
    throw DataError(concat((encoder.folder / "preprocessor_config.json").string(),
                           ": expected every image to become ", model.height, " x ", model.width,
                           ", the model's image size, found ",
                           config.size() ? concat(config.size()->height, " x ", config.size()->width)
                                         : std::string("varying sizes")));
  }
  return config;
}

}  // namespace

ImageEncoderPipeline::ImageEncoderPipeline(std::shared_ptr<const LoadedImageEncoder> encoder,
                                           const ImageEncoderOptions& options)
    : encoder_(required(std::move(encoder))),
      processor_(preprocessing_of(*encoder_, options)),
      batch_tokens_(options.batch_tokens) {
  if (batch_tokens_ < 1) throw UsageError(concat("batch_tokens: expected at least 1, found ", batch_tokens_));
}

ImageEncoderPipeline::ImageEncoderPipeline(const std::filesystem::path& folder,
                                           const ImageEncoderOptions& options,
                                           const models::LoadOptions& load)
    : ImageEncoderPipeline(open_image_encoder(folder, load), options) {}

ImageRequest ImageEncoderPipeline::prepare(const std::string& path) const {
  try {
    return prepare(data::read_image(path));
  } catch (const Error& error) {
    return {.pixels = {}, .error = error.what()};
  }
}

ImageRequest ImageEncoderPipeline::prepare(const data::Image& image) const {
  const models::ImageSize size = *processor_.config().size();
  ImageRequest request{.pixels = Tensor::empty({model().config().channels, size.height, size.width}),
                       .error = {}};
  processor_.normalize(processor_.resize_and_crop(image), request.pixels.data());
  return request;
}

void ImageEncoderPipeline::encode(
    std::span<const ImageRequest* const> requests,
    const std::function<void(size_t request, const Tensor& hidden)>& use) const {
  const models::ImageSize size = *processor_.config().size();
  const int64_t tokens = model().config().tokens(size), channels = model().config().channels;
  const int64_t elements = channels * size.height * size.width;
  const auto most = static_cast<size_t>(std::max<int64_t>(batch_tokens_ / tokens, 1));
  const Shape expected{channels, size.height, size.width};
  std::vector<size_t> good;
  if (!use) throw UsageError("encode: expected a function for the results, found none");
  for (size_t i = 0; i < requests.size(); ++i) {
    if (!requests[i]) throw UsageError(concat("encode: request ", i, ": expected one, found none"));
    if (!requests[i]->error.empty()) continue;
    const Tensor& pixels = requests[i]->pixels;
    if (!pixels.defined() || pixels.dtype() != DType::f32 || pixels.shape() != expected) {
      throw ShapeError(concat(
          "encode: request ", i, ": expected pixels f32 ", expected, ", found ",
          pixels.defined() ? concat(name_of(pixels.dtype()), " ", pixels.shape()) : std::string("none")));
    }
    good.push_back(i);
  }
  const InferenceMemory inference;
  for (size_t begin = 0; begin < good.size(); begin += most) {
    const auto batch = std::span(good).subspan(begin, std::min(most, good.size() - begin));
    Tensor pixels = Tensor::empty({std::ssize(batch), channels, size.height, size.width});
    for (size_t k = 0; k < batch.size(); ++k) {
      const Tensor& one = requests[batch[k]]->pixels;
      const Tensor whole = one.contiguous() ? one : one.clone();
      std::ranges::copy(whole.values(), pixels.data() + static_cast<int64_t>(k) * elements);
    }
    nn::ForwardContext context;
    const Tensor hidden = model()(pixels, context, models::OtherSizes::interpolated).value();
    for (size_t k = 0; k < batch.size(); ++k) {
      use(batch[k], hidden.slice_rows(static_cast<int64_t>(k) * tokens, tokens));
    }
  }
}

void ImageEncoderPipeline::run(std::span<const std::string> paths,
                               const std::function<void(size_t path, const Tensor& hidden)>& finish,
                               const std::function<void(size_t path, const std::string& error)>& fail) const {
  // At most one batch of pixels is in memory.
  const auto most = static_cast<size_t>(
      std::max<int64_t>(batch_tokens_ / model().config().tokens(*processor_.config().size()), 1));
  for (size_t begin = 0; begin < paths.size(); begin += most) {
    const auto batch = paths.subspan(begin, std::min(most, paths.size() - begin));
    std::vector<ImageRequest> requests(batch.size());
    parallel_for(std::ssize(batch), 1, [&](int64_t first, int64_t last) {
      for (auto i = static_cast<size_t>(first); i < static_cast<size_t>(last); ++i)
        requests[i] = prepare(batch[i]);
    });
    std::vector<const ImageRequest*> pointers;
    for (size_t i = 0; i < requests.size(); ++i) {
      pointers.push_back(&requests[i]);
      if (!requests[i].error.empty()) fail(begin + i, requests[i].error);
    }
    encode(pointers, [&](size_t i, const Tensor& hidden) {
      try {
        finish(begin + i, hidden);
      } catch (const Error& error) {
        fail(begin + i, error.what());
      }
    });
  }
}

}  // namespace qkv::pipelines
