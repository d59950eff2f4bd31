#pragma once
// The attention weights of one image, and the image to overlay them on.

#include <string>
#include <vector>

#include "qkv/pipelines/images/image_encoder.h"
#include "qkv/pipelines/results.h"
#include "qkv/search/capture.h"

namespace qkv::pipelines {

struct ImageAttention {
  // The part of the image that the model reads, at most 896 pixels a side. The aspect ratio is kept, even if
  // preprocessing does not keep it.
  data::Image image;
  models::ImageRegion region = {};      // where this part lies in the image
  std::vector<std::string> own_tokens;  // before the patches: "[CLS]", DeiT's "[DISTILL]"; of models without,
                                        // "[POOL]" (below)
  models::ImageSize patches;            // rows and columns of patches
  std::vector<search::CapturedAttention> attentions;
  std::vector<LabelProbability> labels;  // of models with a classification head
};

// A model whose patches are pooled by attention (SigLIP) is drawn with one more layer, in which a token of
// its own, [POOL], attends to the patches, and which other tokens pass as they are.
ImageAttention capture_attention(const ImageEncoderPipeline& encoder, const data::Image& image);

}  // namespace qkv::pipelines
