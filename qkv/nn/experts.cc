#include "qkv/nn/experts.h"

#include <utility>

#include "qkv/base/error.h"
#include "qkv/base/scope.h"
#include "qkv/ops/activation.h"
#include "qkv/ops/convert.h"
#include "qkv/ops/general/arithmetic.h"
#include "qkv/ops/general/reduce.h"
#include "qkv/ops/general/reshape.h"
#include "qkv/ops/general/slice.h"

namespace qkv::nn {
namespace {

const ExpertOptions& validated(const ExpertOptions& options) {
  options.validate();
  if (options.count == 0) throw UsageError("experts: expected at least 1, found 0");
  return options;
}

RouterRule rule_of(const ExpertOptions& options) {
  return {.experts = options.count,
          .per_token = options.per_token,
          .sigmoid = options.sigmoid,
          .normalise = options.normalise,
          .scale = options.scale,
          .groups = options.groups,
          .group_choices = options.group_choices,
          .group_scores = options.groups == 1 ? 1 : options.group_scores,
          .corrects_logits = options.corrects_logits,
          .sparse_mixer = options.sparse_mixer};
}

// The pairs token * per_token + rank of each expert, in the order of the batch.
std::vector<std::vector<int32_t>> grouped(const Tensor& chosen, int64_t experts) {
  std::vector<std::vector<int32_t>> pairs(static_cast<size_t>(experts));
  for (int32_t pair = 0; const int32_t expert : chosen.values<int32_t>())
    pairs[static_cast<size_t>(expert)].push_back(pair++);
  return pairs;
}

Tensor ids(const std::vector<int32_t>& values) { return Tensor::from(values, {std::ssize(values)}); }

Variable sigmoid(const Variable& x) { return 0.5f * activate(0.5f * x, Activation::tanh, {}) + 0.5f; }

}  // namespace

Experts::Experts(const DenseFeedForwardOptions& expert, const ExpertOptions& options)
    : options_(validated(options)),
      router_weight_(Shape{options.count, expert.d_model}, {Initializer::Kind::xavier_uniform}),
      router_bias_(options.router_bias ? Parameter(Shape{options.count}, {}) : Parameter()),
      correction_bias_(options.correction_bias ? Parameter(Shape{options.count}, {}) : Parameter()),
      router_({router_weight_.weight()}, {router_bias_.variable}),
      rule_(rule_of(options)) {
  std::vector<LinearWeights> inner, outer;
  for (int64_t e = 0; e < options.count; ++e) {
    const DenseFeedForward& one = experts_.emplace_back(expert);
    inner.push_back(one.inner());
    outer.push_back(one.outer());
  }
  if (!expert.xielu) {  // whose activations have parameters of their own
    inner_.emplace(std::move(inner));
    outer_.emplace(std::move(outer));
  }
  if (options.shared_d_ff == 0) return;
  DenseFeedForwardOptions shared = expert;
  shared.d_ff = options.shared_d_ff;
  shared_.emplace(shared);
  if (options.shared_gate)
    shared_gate_.emplace(LinearOptions{.inputs = expert.d_model, .outputs = 1, .bias = false});
}

Variable Experts::operator()(const Variable& x, ForwardContext& context) const {
  const int64_t tokens = x.shape()[0], d_model = x.shape()[-1];
  if (tokens == 0) return x;
  const WeightLayout layout = context.training ? WeightLayout::packed : WeightLayout::in_place;  // not bf16
  const DType dtype = x.value().dtype();
  Variable logits = linear(to_f32(x), router_, layout);  // routed and summed in f32
  const Tensor correction = correction_bias_.defined() ? correction_bias_.variable.value() : Tensor();
  const Tensor chosen = choose_experts(logits.value(), correction, rule_);
  const auto weights = [&] {
    return reshape(expert_weights(logits, chosen, rule_), {tokens * options_.per_token, 1});
  };
  Variable factors, outputs;
  if (inner_ && inner_->suit(x.value()) && outer_->suit(x.value()) && !context.training) {
    factors = weights();
    outputs = by_pairs(x, chosen, factors);
  } else {
    const Tensor host = to_host(chosen);  // the only wait for a device
    logits = balanced(logits, host, context.balance);
    factors = weights();
    outputs = by_experts(x, host, factors, context);
  }
  if (!options_.weighs_inputs) outputs = outputs * factors;
  const Variable y = sum(reshape(outputs, {tokens, options_.per_token, d_model}), 1);
  if (!shared_) return in_dtype(y, dtype);
  Variable shared = (*shared_)(x, context);
  if (shared_gate_) shared = shared * sigmoid((*shared_gate_)(x, context));
  return in_dtype(options_.shared_mean ? 0.5f * (y + shared) : y + shared, dtype);
}

Variable Experts::by_pairs(const Variable& x, const Tensor& chosen, const Variable& weights) const {
  const Tensor pairs = chosen.reshape({chosen.numel()});
  Variable read = x;
  if (options_.weighs_inputs) {
    const int64_t d_model = x.shape()[-1];
    const Variable of_tokens =
        reshape(to_f32(x), {chosen.rows(), 1, d_model}) * reshape(weights, {chosen.rows(), chosen.cols(), 1});
    read = in_dtype(reshape(of_tokens, {chosen.numel(), d_model}), x.value().dtype());
  }
  const Variable inner = experts_.front().activated(linear_chosen(read.value(), *inner_, pairs));
  return to_f32(linear_chosen(inner.value(), *outer_, pairs));
}

Variable Experts::by_experts(const Variable& x, const Tensor& chosen, const Variable& weights,
                             ForwardContext& context) const {
  const Variable rows = to_f32(x);
  const std::vector<std::vector<int32_t>> pairs = grouped(chosen, options_.count);
  std::vector<Variable> parts;
  Tensor place = Tensor::empty({chosen.numel()}, DType::i32);  // of each pair among the parts
  for (int32_t next = 0; const std::vector<int32_t>& own : pairs) {
    for (const int32_t pair : own) place.data<int32_t>()[pair] = next++;
  }
  for (size_t e = 0; e < experts_.size(); ++e) {
    // In training all have a gradient, if of zeros, as their weights are one parameter elsewhere.
    if (pairs[e].empty() && !context.training) continue;
    const NameScope scope("experts", static_cast<int>(e));
    std::vector<int32_t> tokens = pairs[e];
    for (int32_t& one : tokens) one /= static_cast<int32_t>(options_.per_token);
    Variable read = gather(rows, ids(tokens));
    if (options_.weighs_inputs) read = read * gather(weights, ids(pairs[e]));
    parts.push_back(experts_[e](in_dtype(read, x.value().dtype()), context));
  }
  return gather(to_f32(concatenate(parts, 0)), place);
}

void Experts::visit(const ParameterVisitor& visitor) const {
  visitor("router.weight", router_weight_);
  if (router_bias_.defined()) visitor("router.bias", router_bias_);
  if (correction_bias_.defined()) visitor("correction.e_score_correction_bias", correction_bias_);
  visit_parts(visitor, "experts", experts_);
  if (shared_) visit_part(visitor, "shared_expert", *shared_);
  if (shared_gate_) visit_part(visitor, "shared_gate", *shared_gate_);
}

}  // namespace qkv::nn
