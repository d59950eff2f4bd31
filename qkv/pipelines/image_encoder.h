#pragma once
// What an encoder of images says about picture files: labels, vectors, and where it looks.

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "qkv/data/image.h"
#include "qkv/models/hub/load_options.h"
#include "qkv/models/image_encoder.h"
#include "qkv/models/image_processor.h"
#include "qkv/pipelines/results.h"
#include "qkv/search/capture.h"

namespace qkv::pipelines {

struct ImageEncoderOptions {
  // What the model is shown, in place of images of its own size; its positions are interpolated.
  std::optional<models::ImageSize> size = {};
  int64_t batch_tokens = 4096;
  models::LoadOptions load = {};
};

// The attention weights of one image, and what there is to draw them on.
struct ImageAttention {
  // What the model has seen, with as many pixels as the file has up to a point, and in its own proportions
  // where the model sees all of it squeezed into its size.
  data::Image picture;
  std::vector<std::string> own_tokens;  // in front of the patches: "[CLS]", and DeiT's "[DISTILL]"
  models::ImageSize patches;            // rows and columns of them
  std::vector<search::CapturedAttention> attentions;
  std::vector<LabelProbability> labels;  // where the model has labels
};

// An encoder of images and its preprocessing. Const: any number of threads may use one. A result does not
// depend on the other images.
class ImageEncoderPipeline {
 public:
  // Throws what models::load_image_encoder() and models::load_image_processor() throw; DataError where they
  // do not fit each other; UsageError for a size that is no multiple of the patches'.
  explicit ImageEncoderPipeline(const std::filesystem::path& folder, const ImageEncoderOptions& options = {});

  const models::ImageEncoder& model() const { return *model_; }
  const models::ImageProcessor& processor() const { return processor_; }

  // Of picture files. These throw UsageError where the model has no such head.
  std::vector<Classified> classify(std::span<const std::string> paths) const;
  std::vector<Embedded> embed(std::span<const std::string> paths, const EmbedOptions& options = {}) const;

  ImageAttention attention(const data::Image& image) const;

 private:
  // use(picture's number, its hidden states [tokens, d_model]) for each file that is an image, and
  // refuse(number, why) for the others.
  template <class Use, class Refuse>
  void run(std::span<const std::string> paths, const Use& use, const Refuse& refuse) const;

  std::unique_ptr<const models::ImageEncoder> model_;
  models::ImageProcessor processor_;
  int64_t batch_tokens_;
};

}  // namespace qkv::pipelines
