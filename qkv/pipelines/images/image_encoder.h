#pragma once
// Common base of the image encoder pipelines: decodes and preprocesses image files, and runs the encoder.

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
  // Input size in pixels, a multiple of the patch size; position embeddings are interpolated. Nothing: the
  // model's own size.
  std::optional<models::ImageSize> size = {};
  // Tokens per batch: affects memory and speed, not results.
  int64_t batch_tokens = 4096;
};

// The encoder's input. A pipeline whose finish() needs more data derives from it.
struct ImageRequest {
  Tensor pixels;      // f32 [channels, height, width]
  std::string error;  // why the file cannot be read; encode() then skips it
};

// Base class of a pipeline. Const: safe to use from several threads. A pipeline adds
//   Result finish(const Request& request, const Tensor& hidden) const;
//   std::vector<Result> operator()(paths, options) const;
class ImageEncoderPipeline {
 public:
  // Throws the errors of open_image_encoder(), DataError if model and preprocessing contradict each other,
  // and UsageError for a size that is not a multiple of the patch size.
  explicit ImageEncoderPipeline(std::shared_ptr<const LoadedImageEncoder> encoder,
                                const ImageEncoderOptions& options = {});
  explicit ImageEncoderPipeline(const std::filesystem::path& folder, const ImageEncoderOptions& options = {},
                                const models::LoadOptions& load = {});

  const models::ImageEncoder& model() const { return *encoder_->model; }
  const std::shared_ptr<const LoadedImageEncoder>& encoder() const { return encoder_; }
  const models::ImageProcessor& processor() const { return processor_; }

  // Reads and preprocesses an image file. Errors are stored in the request.
  ImageRequest prepare(const std::string& path) const;
  ImageRequest prepare(const data::Image& image) const;

  // Runs the encoder over requests, possibly of different pipelines, and calls use(index of the request,
  // hidden states [tokens, d_model]) for each request without an error. Hidden states do not depend on the
  // other requests.
  void encode(std::span<const ImageRequest* const> requests,
              const std::function<void(size_t request, const Tensor& hidden)>& use) const;

 protected:
  // Prepares, encodes and finishes all files in batches: finish(index of the path, hidden states) for each
  // image, fail(index, reason) for unreadable files.
  void run(std::span<const std::string> paths,
           const std::function<void(size_t path, const Tensor& hidden)>& finish,
           const std::function<void(size_t path, const std::string& error)>& fail) const;

 private:
  std::shared_ptr<const LoadedImageEncoder> encoder_;
  models::ImageProcessor processor_;
  int64_t batch_tokens_;
};

}  // namespace qkv::pipelines
