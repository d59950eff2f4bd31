#pragma once
// Where a model's parameters are.

#include <string>
#include <vector>

#include "qkv/nn/parameter.h"

namespace qkv::explain {

struct PartCount {
  std::string name;  // "embeddings", "self_attention", "feed_forward", "norms"; heads by their own names
  int64_t parameters = 0;
  int64_t weight_bytes = 0;  // in the form that they have
};

// Of all layers together, in the order in which the parts are first visited.
std::vector<PartCount> count_parts(const std::function<void(const nn::ParameterVisitor&)>& visit);

}  // namespace qkv::explain
