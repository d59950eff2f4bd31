#pragma once
// Classification of images by labels that no model was trained on (Radford et al. 2021, section 3.1): a label
// is as likely as the vector of "This is a photo of LABEL." is near that of the image.

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "qkv/base/option_field.h"
#include "qkv/models/dual_encoder.h"
#include "qkv/pipelines/embed.h"
#include "qkv/pipelines/images/images.h"

namespace qkv::pipelines {

// transformers' default.
struct ImageZeroShotOptions {
  std::string hypothesis = "This is a photo of {}.";  // with the label in place of {}

  template <class Self, class Visit>
  static void visit_fields(Self&& self, const Visit& visit) {
    visit(
        {"hypothesis", "TEXT", "Sentence that is true of an image with a label, which takes the place of {}"},
        self.hypothesis);
  }
};

// Labels with their vectors, of length 1.
struct LabelVectors {
  std::vector<std::string> labels;
  std::vector<std::vector<float>> vectors;
};

class ImageZeroShotClassifier : public ImageEncoderPipeline {
 public:
  // Throws the errors of ImageEncoderPipeline.
  explicit ImageZeroShotClassifier(const std::shared_ptr<const LoadedDualEncoder>& encoder,
                                   const ImageEncoderOptions& options = {});
  explicit ImageZeroShotClassifier(const std::filesystem::path& folder,
                                   const ImageEncoderOptions& options = {},
                                   const models::LoadOptions& load = {});

  // The requests of the encoder of texts, one for each label, for its finish(). Throws UsageError for no
  // labels, an empty or a repeated one, a text that the model cannot read, and a hypothesis without {}.
  std::vector<EmbedRequest> prepare_labels(std::span<const std::string> labels,
                                           const ImageZeroShotOptions& options = {}) const;
  const TextEmbedder& texts() const { return texts_; }
  LabelVectors label_vectors(std::span<const std::string> labels,
                             const ImageZeroShotOptions& options = {}) const;

  // hidden: [tokens, d_model], from encode(). Probabilities are a softmax over the labels, or, for a model
  // that tells of each text alone whether it fits (SigLIP), sigmoids.
  Classified finish(const ImageRequest& request, const Tensor& hidden, const LabelVectors& labels) const;

  // Classifies PNG and JPEG files.
  std::vector<Classified> operator()(std::span<const std::string> paths, const LabelVectors& labels) const;

 private:
  TextEmbedder texts_;
  TextEmbedOptions reading_;  // of labels
  models::Similarity similarity_;
};

}  // namespace qkv::pipelines
