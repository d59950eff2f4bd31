#pragma once
// Image classification and image embeddings.

#include "qkv/pipelines/images/image_encoder.h"
#include "qkv/pipelines/results.h"

namespace qkv::pipelines {

class ImageClassifier : public ImageEncoderPipeline {
 public:
  // Throws DataError for a model without an image classification head, and the errors of
  // ImageEncoderPipeline.
  explicit ImageClassifier(std::shared_ptr<const LoadedImageEncoder> encoder,
                           const ImageEncoderOptions& options = {});
  explicit ImageClassifier(const std::filesystem::path& folder, const ImageEncoderOptions& options = {},
                           const models::LoadOptions& load = {});

  // hidden: [tokens, d_model], from encode().
  Classified finish(const ImageRequest& request, const Tensor& hidden) const;

  // Classifies PNG and JPEG files.
  std::vector<Classified> operator()(std::span<const std::string> paths) const;
};

struct ImageEmbedRequest : ImageRequest {
  EmbedOptions options;
};

class ImageEmbedder : public ImageEncoderPipeline {
 public:
  using ImageEncoderPipeline::ImageEncoderPipeline;

  // The pooler of models whose vectors are compared with those of texts (CLIP); otherwise EmbedOptions'.
  EmbedOptions default_options() const;

  // Throws UsageError for Pooling::pooler if the model has no pooler, and for dimensions beyond its width.
  ImageEmbedRequest prepare(const std::string& path, const EmbedOptions& options = {}) const;
  ImageEmbedRequest prepare(const data::Image& image, const EmbedOptions& options = {}) const;
  // hidden: [tokens, d_model], from encode().
  Embedded finish(const ImageEmbedRequest& request, const Tensor& hidden) const;

  // Embeds PNG and JPEG files.
  std::vector<Embedded> operator()(std::span<const std::string> paths,
                                   const EmbedOptions& options = {}) const;

 private:
  void require(const EmbedOptions& options) const;
};

}  // namespace qkv::pipelines
