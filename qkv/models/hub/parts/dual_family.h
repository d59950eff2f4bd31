#pragma once
// Folders of two encoders, of texts and of images, whose vectors are in one space (CLIP). config.json has
// their configurations as "text_config" and "vision_config"; each opens as a model of its own family.

#include <span>
#include <string>
#include <string_view>

#include "qkv/models/hub/config_reader.h"

namespace qkv::models {

struct DualFamily {
  struct Encoder {
    std::string_view model_type, architecture;  // of its own family, with the heads of the common space
  };
  std::string_view model_type, architecture;  // of the whole
  Encoder text, image;
  // The whole's field of the common space's features, and its default; empty: the encoders have it.
  std::string_view width = {};
  int64_t usual_width = 0;
  // Whether a text fits an image or not, whatever other texts there are: probabilities are sigmoids, and the
  // logits have a bias.
  bool independent = false;
};

std::span<const DualFamily> dual_families();

// The family with this model_type; null: none.
const DualFamily* find_dual(std::string_view model_type);

enum class DualPart : uint8_t { text, image };

// config.json of one encoder, "text_config" or "vision_config" of the whole. Throws DataError for another
// class and for a field of the whole that is unknown.
std::string config_of_part(const ConfigReader& whole, const DualFamily& family, DualPart part);

}  // namespace qkv::models
