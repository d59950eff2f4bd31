#pragma once
// An encoder of images: patches are its tokens (Dosovitskiy et al. 2021, ViT; Touvron et al. 2021, DeiT).

#include <optional>
#include <string>
#include <vector>

#include "qkv/models/image_processor.h"
#include "qkv/models/problem_type.h"
#include "qkv/nn/encoder.h"
#include "qkv/nn/linear.h"

namespace qkv::models {

// Images cut into squares: [channels, height, width] -> [height / side, width / side, channels * side *
// side], and with a leading axis of images likewise. A patch's numbers are in the order of the image's axes:
// channel, row, column. Throws ShapeError unless side divides height and width.
Tensor patchify(const Tensor& images, int64_t side);

struct ImageEncoderConfig {
  int64_t channels = 3, height = 224, width = 224;
  int64_t patch = 16;      // side of a patch
  bool distilled = false;  // a second token of its own beside the class token (DeiT)
  nn::StackOptions encoder = {};
  float dropout = 0;    // of the sum of tokens and positions
  bool pooler = false;  // a vector of the whole image, out of its first token's
  Activation pooler_activation = Activation::tanh;
  std::vector<std::string> labels = {};  // of images; none: no classifier
  // A classifier of the second token too, which has learned from a teacher: logits are the mean of both.
  bool distillation_classifier = false;
  ProblemType problem = ProblemType::single_label;

  int64_t own_tokens() const { return distilled ? 2 : 1; }
  // Of an image of the model's size, and of any that the patches' side divides.
  int64_t tokens() const { return tokens({height, width}); }
  int64_t tokens(ImageSize size) const { return own_tokens() + (size.height / patch) * (size.width / patch); }
  // Throws UsageError naming the field, what was expected and what was found.
  void validate() const;
};

// What is done with images of another size than the model's.
enum class OtherSizes : uint8_t {
  refused,
  interpolated,  // the positions of their patches are interpolated between those that the model has learned
};

// Const after it has its numbers, as LanguageModel.
class ImageEncoder {
 public:
  explicit ImageEncoder(const ImageEncoderConfig& config);

  const ImageEncoderConfig& config() const { return config_; }

  // pixels f32 [images, channels, height, width], as the model's preprocessing leaves them -> hidden states
  // [images * tokens, d_model]: of each image the tokens of its own, then its patches row by row. Throws
  // ShapeError for images of another size, or of one that the patches' side does not divide, and UsageError
  // where interpolated positions would be trained.
  Variable operator()(const Tensor& pixels, nn::ForwardContext& context,
                      OtherSizes other_sizes = OtherSizes::refused) const;

  // These take hidden states and the offsets of the images' tokens, and throw UsageError where the model has
  // no such head.
  Variable pooled(const Variable& hidden, const Offsets& offsets) const;  // -> [images, d_model]
  Variable classifier_logits(const Variable& hidden,
                             const Offsets& offsets) const;  // -> logits [images, labels]

  // "class_token", "positions", "patches.weight", "encoder.layers.0.fc1.bias", "classifier.weight".
  void visit(const nn::ParameterVisitor& visitor) const;

 private:
  Variable positions_of(ImageSize size) const;

  ImageEncoderConfig config_;
  nn::Parameter class_token_, distillation_token_;  // [1, d_model]
  nn::Parameter positions_;                         // [tokens, d_model]
  nn::Linear patches_;
  nn::Encoder encoder_;
  std::optional<nn::Linear> pooler_, classifier_, distillation_classifier_;
};

}  // namespace qkv::models
