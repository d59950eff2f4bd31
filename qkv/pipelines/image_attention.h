#pragma once
// The attention weights of one image, and the image to draw them on.

#include <string>
#include <vector>

#include "qkv/pipelines/image_encoder.h"
#include "qkv/pipelines/results.h"
#include "qkv/search/capture.h"

namespace qkv::pipelines {

struct ImageAttention {
  // The part of the image that the model reads, with up to 896 pixels a side; in its own proportions where
  // the model reads all of it, resized to its input.
  data::Image image;
  std::vector<std::string> own_tokens;  // in front of the patches: "[CLS]", and DeiT's "[DISTILL]"
  models::ImageSize patches;            // rows and columns of patches
  std::vector<search::CapturedAttention> attentions;
  std::vector<LabelProbability> labels;  // of models with labels
};

ImageAttention capture_attention(const ImageEncoderPipeline& encoder, const data::Image& image);

}  // namespace qkv::pipelines
