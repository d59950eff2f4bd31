#pragma once
// The interpretation of a classifier's logits.

#include <cstdint>

namespace qkv::models {

enum class ProblemType : uint8_t {
  single_label,  // one label is right: softmax over all logits
  multi_label,   // independent labels: sigmoid of each logit
  regression,    // the logits are the predicted values
};

}  // namespace qkv::models
