#pragma once
// What a caller may ask for when a model folder is opened.

#include <optional>

#include "qkv/ops/weight_form.h"

namespace qkv::models {

struct LoadOptions {
  // The form in which weights are kept; nothing: as the folder has them (float16 as f32).
  std::optional<WeightForm> weights = {};
};

}  // namespace qkv::models
