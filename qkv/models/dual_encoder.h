#pragma once
// Two encoders, of texts and of images, whose vectors are in one space (CLIP, Radford et al. 2021; SigLIP,
// Zhai et al. 2023).

#include <filesystem>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "qkv/models/hub/load_options.h"
#include "qkv/models/image_encoder.h"
#include "qkv/models/text_encoder.h"

namespace qkv::models {

// How a text fits an image, by the cosine of their vectors.
struct Similarity {
  float log_scale = 0, bias = 0;
  bool independent = false;  // a probability is a sigmoid; otherwise a softmax over texts

  // Of the cosines of several texts and an image, in double precision.
  std::vector<float> probabilities(std::span<const double> cosines) const;
};

struct DualEncoder {
  std::shared_ptr<const TextEncoder> text;
  std::shared_ptr<const ImageEncoder> image;
  Similarity similarity;

  // "text.embed_tokens.weight", "image.patches.weight".
  void visit(const nn::ParameterVisitor& visitor) const {
    nn::visit_part(visitor, "text", *text);
    nn::visit_part(visitor, "image", *image);
  }
};

// Folders of "clip" and "siglip". Throws the errors of load_text_encoder() and load_image_encoder(), and
// DataError if their vectors differ in width.
DualEncoder load_dual_encoder(const std::filesystem::path& folder, const LoadOptions& options = {});
// Only how texts fit images. Also throws DataError for a folder of another kind.
Similarity load_similarity(const std::filesystem::path& folder);

// In the format of `model_type`, as save_text_encoder().
void save_dual_encoder(const std::filesystem::path& folder, const DualEncoder& model,
                       std::string_view model_type, const std::filesystem::path& original = {});

}  // namespace qkv::models
