#pragma once
// Parameter counts of a model by part.

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "qkv/nn/layer_options.h"
#include "qkv/nn/parameter.h"

namespace qkv::explain {

struct PartCount {
  // "embeddings", "self_attention", "feed_forward", "router", "experts", "norms"; model heads by their own
  // names.
  std::string name;
  int64_t parameters = 0;
  int64_t active = 0;        // those that a token uses: of the experts, its own alone
  int64_t weight_bytes = 0;  // in their actual dtypes
  std::vector<std::pair<DType, int64_t>> dtypes = {};  // these, and the parameters of each
};

// Sums over all layers, in order of first visit.
// `stack`: that of a model whose layers may have experts.
std::vector<PartCount> count_parts(const std::function<void(const nn::ParameterVisitor&)>& visit,
                                   const nn::StackOptions& stack = {});

// The same of a model.
template <class Model>
std::vector<PartCount> count_parts(const Model& model) {
  nn::StackOptions stack;
  if constexpr (requires { model.config().decoder.layers; }) stack = model.config().decoder;
  return count_parts([&](const nn::ParameterVisitor& visitor) { model.visit(visitor); }, stack);
}

// The sums; without a name.
PartCount total(const std::vector<PartCount>& parts);

// [{"name", "parameters", "active_parameters", "weight_bytes", "dtypes": {"f32": parameters}}]
std::string to_json(const std::vector<PartCount>& parts);

}  // namespace qkv::explain
