#pragma once
// Labels and vectors of images.

#include "qkv/pipelines/image_encoder.h"
#include "qkv/pipelines/results.h"

namespace qkv::pipelines {

class ImageClassifier : public ImageEncoderPipeline {
 public:
  // Throws UsageError for a model that does not label images, and what ImageEncoderPipeline throws.
  explicit ImageClassifier(std::shared_ptr<const LoadedImageEncoder> encoder,
                           const ImageEncoderOptions& options = {});
  explicit ImageClassifier(const std::filesystem::path& folder, const ImageEncoderOptions& options = {},
                           const models::LoadOptions& load = {});

  // hidden: [tokens, d_model], as encode() gives them.
  Classified finish(const ImageRequest& request, const Tensor& hidden) const;

  // Labels of PNG and JPEG files.
  std::vector<Classified> operator()(std::span<const std::string> paths) const;
};

struct ImageEmbedRequest : ImageRequest {
  EmbedOptions options;
};

class ImageEmbedder : public ImageEncoderPipeline {
 public:
  using ImageEncoderPipeline::ImageEncoderPipeline;

  // Throws UsageError for Pooling::pooler with a model that has none.
  ImageEmbedRequest prepare(const std::string& path, const EmbedOptions& options = {}) const;
  // hidden: [tokens, d_model], as encode() gives them.
  Embedded finish(const ImageEmbedRequest& request, const Tensor& hidden) const;

  // Vectors of PNG and JPEG files.
  std::vector<Embedded> operator()(std::span<const std::string> paths,
                                   const EmbedOptions& options = {}) const;
};

}  // namespace qkv::pipelines
