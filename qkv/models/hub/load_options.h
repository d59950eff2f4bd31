#pragma once
// What a caller may ask for when a model folder is opened.

#include <optional>

#include "qkv/ops/weight_form.h"

namespace qkv::models {

struct LoadOptions {
  // The form in which weights are kept; nothing: as the folder has them (float16 as f32).
  std::optional<WeightForm> weights = {};
  // Whether the numbers may be written to, as training does: pages of the mapped files become the process's
  // own when they are. Else writing to them is a crash, and pages that were converted are given back.
  bool trainable = false;
};

}  // namespace qkv::models
