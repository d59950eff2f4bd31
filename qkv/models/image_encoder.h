#pragma once
// Image encoders whose tokens are patches (ViT, Dosovitskiy et al. 2021; DeiT, Touvron et al. 2021; those of
// CLIP, Radford et al. 2021, and SigLIP, Zhai et al. 2023).

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "qkv/models/image_processor.h"
#include "qkv/models/problem_type.h"
#include "qkv/nn/encoder.h"
#include "qkv/nn/linear.h"

namespace qkv::models {

class AttentionPooler;  // attention_pooler.h

// Splits images into square patches: [channels, height, width] -> [height / side, width / side, channels *
// side * side], optionally with a leading axis of images. A patch's values are in the order channel, row,
// column. Throws ShapeError unless side divides height and width.
Tensor patchify(const Tensor& images, int64_t side);

// How the tokens of an image become one vector.
enum class ImagePooler : uint8_t {
  dense,      // a linear layer and an activation, of the first token
  norm,       // a norm of the first token
  attention,  // AttentionPooler
};

struct ImageEncoderConfig {
  // What patches do not cover at the bottom and the right is not read.
  int64_t channels = 3, height = 224, width = 224;
  int64_t patch = 16;  // side of a patch
  bool class_token = true;
  bool distilled = false;       // has a distillation token after the class token (DeiT)
  bool patch_bias = true;       // of patch embeddings
  bool embedding_norm = false;  // of their sum with the positions
  nn::StackOptions encoder = {};
  float dropout = 0;  // of the sum of patch embeddings and positions
  // In training, the share of each image's patches that are left out (models/patch_dropout.h), in [0, 1).
  float patch_dropout = 0;
  bool pooler = false;  // has a pooler
  ImagePooler pooler_kind = ImagePooler::dense;
  Activation pooler_activation = Activation::tanh;
  int64_t projection = 0;                // features to which a linear layer maps the pooler's result; 0: none
  std::vector<std::string> labels = {};  // of images; empty: no classifier
  // A second classifier, on the distillation token; logits are the mean of both.
  bool distillation_classifier = false;
  ProblemType problem = ProblemType::single_label;

  int64_t own_tokens() const { return (class_token ? 1 : 0) + (distilled ? 1 : 0); }
  // Tokens of an image of the model's size, and of any size that the patch size divides.
  int64_t tokens() const { return tokens({height, width}); }
  int64_t tokens(ImageSize size) const { return own_tokens() + (size.height / patch) * (size.width / patch); }
  // Features of a pooled image.
  int64_t pooled_width() const { return projection > 0 ? projection : encoder.d_model(); }
  // Throws UsageError naming the field, what was expected and what was found.
  void validate() const;
};

// Treatment of images of another size than the model's.
enum class OtherSizes : uint8_t {
  refused,
  interpolated,  // interpolate the learned positions
};

// Const once its parameters have values, like LanguageModel.
class ImageEncoder {
 public:
  explicit ImageEncoder(const ImageEncoderConfig& config);

  const ImageEncoderConfig& config() const { return config_; }

  // pixels f32 [images, channels, height, width], preprocessed -> hidden states [images * tokens, d_model]:
  // for each image, special tokens, then patches row by row (with patch dropout, those kept). Throws
  // ShapeError for images of another size, or of a size that the patch size does not divide, and UsageError
  // if interpolated positions would be trained.
  Variable operator()(const Tensor& pixels, nn::ForwardContext& context,
                      OtherSizes other_sizes = OtherSizes::refused) const;

  // The heads take hidden states and the offsets of the images' tokens. Throws UsageError if the model lacks
  // the head.
  Variable pooled(const Variable& hidden, const Offsets& offsets) const;  // -> [images, pooled_width()]
  // With the context's observer of attention weights.
  Variable pooled(const Variable& hidden, const Offsets& offsets, nn::ForwardContext& context) const;
  Variable classifier_logits(const Variable& hidden,
                             const Offsets& offsets) const;  // -> logits [images, labels]

  // "class_token", "positions", "patches.weight", "encoder.layers.0.fc1.bias", "classifier.weight".
  void visit(const nn::ParameterVisitor& visitor) const;

 private:
  Variable positions_of(ImageSize size) const;

  ImageEncoderConfig config_;
  nn::Parameter class_token_, distillation_token_;  // [1, d_model]; undefined: none
  nn::Parameter positions_;                         // [tokens, d_model]
  nn::Linear patches_;
  std::optional<nn::Norm> embedding_norm_;
  nn::Encoder encoder_;
  std::optional<nn::Norm> pooler_norm_;
  std::shared_ptr<const AttentionPooler> attention_pooler_;
  std::optional<nn::Linear> pooler_, projection_, classifier_, distillation_classifier_;
};

}  // namespace qkv::models
