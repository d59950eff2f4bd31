#pragma once
// The parameters of a model by part.

#include <string>
#include <vector>

#include "qkv/nn/parameter.h"

namespace qkv::explain {

struct PartCount {
  std::string name;  // "embeddings", "self_attention", "feed_forward", "norms"; heads by their own names
  int64_t parameters = 0;
  int64_t weight_bytes = 0;  // with the dtypes that they have
};

// Sums over all layers, in the order of the first visit.
std::vector<PartCount> count_parts(const std::function<void(const nn::ParameterVisitor&)>& visit);

}  // namespace qkv::explain
