#include "qkv/nn/low_rank.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "qkv/base/error.h"
#include "qkv/kernels/matmul.h"
#include "qkv/kernels/pointwise.h"

namespace qkv::nn {
namespace {

constexpr std::string_view kWeight = ".weight";

// "q_proj" of "encoder.layers.0.self_attn.q_proj".
std::string last_part(const std::string& module) { return module.substr(module.rfind('.') + 1); }

// The module of a weight matrix of a linear map inside a layer; empty for other parameters.
std::string layer_projection(const NamedParameter& one) {
  if (!one.parameter.low_rank || !one.name.ends_with(kWeight)) return {};
  if (!one.name.starts_with("layers.") && one.name.find(".layers.") == one.name.npos) return {};
  return one.name.substr(0, one.name.size() - kWeight.size());
}

}  // namespace

void LowRankOptions::validate() const {
  if (rank < 1 || rank > 1024) throw UsageError(concat("lora.rank: expected 1 to 1024, found ", rank));
  if (!(alpha > 0) || !std::isfinite(alpha))
    throw UsageError(concat("lora.alpha: expected more than 0, found ", alpha));
  if (targets.empty()) throw UsageError("lora.targets: expected at least one projection, found none");
}

LowRankAdapter::LowRankAdapter(const std::vector<NamedParameter>& parameters, const LowRankOptions& options)
    : options_(options) {
  options.validate();
  const float scale = options.alpha / static_cast<float>(options.rank);
  std::set<std::string> found, known;
  for (const NamedParameter& one : parameters) {
    const std::string module = layer_projection(one);
    if (module.empty()) continue;
    const std::string part = last_part(module);
    known.insert(part);
    if (std::ranges::find(options.targets, part) == options.targets.end()) continue;
    found.insert(part);
    if (one.parameter.low_rank->defined())
      throw UsageError(concat("lora: ", module, ": expected a weight without an adapter, found one with"));
    const int64_t outputs = one.parameter.shape[0], inputs = one.parameter.shape[1];
    // The deviation of PyTorch's uniform initialisation of linear layers, which PEFT uses.
    const float deviation = 1.0f / std::sqrt(3.0f * static_cast<float>(inputs));
    updates_.push_back({.name = module,
                        .weight = one.parameter,
                        .a = Parameter(Shape{options.rank, inputs}, {Initializer::Kind::normal, deviation}),
                        .b = Parameter(Shape{outputs, options.rank}, {Initializer::Kind::zeros}),
                        .scale = scale});
  }
  for (const std::string& target : options.targets) {
    if (found.contains(target)) continue;
    std::string list;
    for (const std::string& name : known) list += concat(list.empty() ? "" : ", ", name);
    throw UsageError(
        concat("lora.targets: expected projections of the model's layers (", list, "), found ", target));
  }
  for (const LowRankUpdate& update : updates_)
    *update.weight.low_rank = {update.a.variable, update.b.variable, update.scale};
}

LowRankAdapter::~LowRankAdapter() { detach(); }

void LowRankAdapter::detach() {
  for (const LowRankUpdate& update : updates_) *update.weight.low_rank = {};
  updates_.clear();
}

void LowRankAdapter::visit(const ParameterVisitor& visitor) const {
  for (const LowRankUpdate& update : updates_) {
    visitor(update.name + ".lora_A.weight", update.a);
    visitor(update.name + ".lora_B.weight", update.b);
  }
}

void merge_low_rank(const std::string& module, const Parameter& weight) {
  if (!weight.low_rank || !weight.low_rank->defined()) return;
  const LowRank update = *weight.low_rank;
  const Tensor& values = weight.variable.value();
  if (values.dtype() != DType::f32) {
    throw UsageError(
        concat("lora: ", module, ": expected an f32 weight to merge into, found ", name_of(values.dtype())));
  }
  Tensor scaled = empty_like(update.b.value());
  kernels::scale(update.b.value(), update.scale, scaled, Accumulate::no);
  Tensor merged = values.clone();
  kernels::matmul(scaled, kernels::PackedMatrix::plain({&update.a.value(), 1}), {}, merged, Accumulate::yes);
  Variable(weight.variable).set_value(merged);
  *weight.low_rank = {};
}

void LowRankAdapter::merge() {
  for (const LowRankUpdate& update : updates_) merge_low_rank(update.name, update.weight);
  updates_.clear();
}

}  // namespace qkv::nn
