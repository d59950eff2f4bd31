#pragma once
// What a model's labels are to each other.

#include <cstdint>

namespace qkv::models {

enum class ProblemType : uint8_t {
  single_label,  // one of them is right: softmax of all logits
  multi_label,   // each is right or not: a sigmoid of its logit
  regression,    // none is: the logits are what is asked for
};

}  // namespace qkv::models
