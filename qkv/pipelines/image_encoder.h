#pragma once
// What the pipelines of an image encoder share: image files to pixels, and pixels through the encoder.

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "qkv/data/image.h"
#include "qkv/models/image_processor.h"
#include "qkv/pipelines/open_model.h"

namespace qkv::pipelines {

struct ImageEncoderOptions {
  // The size of the images that the model reads, in pixels, multiples of its patches'; its position
  // embeddings are interpolated. Nothing: the model's own size.
  std::optional<models::ImageSize> size = {};
  // Tokens in a batch of images: decides memory and speed, never the result.
  int64_t batch_tokens = 4096;
};

// An image as the encoder reads it. A pipeline whose finish() needs more derives from it.
struct ImageRequest {
  Tensor pixels;      // f32 [3, height, width]
  std::string error;  // why the file cannot be read; encode() skips it then
};

// The base of a pipeline, which is const: any number of threads may use one. A pipeline adds
//   Result finish(const Request& request, const Tensor& hidden) const;
//   std::vector<Result> operator()(paths, options) const;
class ImageEncoderPipeline {
 public:
  // Throws what open_image_encoder() throws; DataError where model and preprocessing contradict each other;
  // UsageError for a size that is not a multiple of the patches'.
  explicit ImageEncoderPipeline(std::shared_ptr<const LoadedImageEncoder> encoder,
                                const ImageEncoderOptions& options = {});
  explicit ImageEncoderPipeline(const std::filesystem::path& folder, const ImageEncoderOptions& options = {},
                                const models::LoadOptions& load = {});

  const models::ImageEncoder& model() const { return *encoder_->model; }
  const models::ImageProcessor& processor() const { return processor_; }

  // Reads and preprocesses an image file; what is wrong with it is in the request.
  ImageRequest prepare(const std::string& path) const;
  ImageRequest prepare(const data::Image& image) const;

  // Runs the encoder over requests, which may be of different pipelines: use(request's number, its hidden
  // states [tokens, d_model]) for each request without an error. Hidden states do not depend on the other
  // requests.
  void encode(std::span<const ImageRequest* const> requests,
              const std::function<void(size_t request, const Tensor& hidden)>& use) const;

 protected:
  // Prepares, encodes and finishes all files, a batch at a time: finish(path's number, its hidden states) for
  // each image, and fail(number, why) for the other files.
  void run(std::span<const std::string> paths,
           const std::function<void(size_t path, const Tensor& hidden)>& finish,
           const std::function<void(size_t path, const std::string& error)>& fail) const;

 private:
  std::shared_ptr<const LoadedImageEncoder> encoder_;
  models::ImageProcessor processor_;
  int64_t batch_tokens_;
};

}  // namespace qkv::pipelines
