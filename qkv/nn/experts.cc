#include "qkv/nn/experts.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "qkv/base/error.h"
#include "qkv/base/scope.h"
#include "qkv/ops/activation.h"
#include "qkv/ops/convert.h"
#include "qkv/ops/general/arithmetic.h"
#include "qkv/ops/general/reduce.h"
#include "qkv/ops/general/reshape.h"
#include "qkv/ops/general/router.h"
#include "qkv/ops/general/slice.h"
#include "qkv/ops/general/softmax.h"

namespace qkv::nn {
namespace {

const ExpertOptions& validated(const ExpertOptions& options) {
  options.validate();
  if (options.count == 0) throw UsageError("experts: expected at least 1, found 0");
  return options;
}

// The chosen pairs of token and expert, grouped by expert.
struct Groups {
  std::vector<std::vector<int32_t>> tokens;  // of each expert, in the order of the batch
  std::vector<std::vector<int32_t>> pairs;   // likewise, token * per_token + rank
  Tensor place;                              // of pair token * per_token + rank in that order, i32 [pairs]
};

Groups grouped(const Tensor& chosen, int64_t experts) {
  Groups groups{.tokens = std::vector<std::vector<int32_t>>(static_cast<size_t>(experts)),
                .pairs = std::vector<std::vector<int32_t>>(static_cast<size_t>(experts)),
                .place = Tensor::empty({chosen.numel()}, DType::i32)};
  const auto numbers = chosen.values<int32_t>();
  std::vector<int32_t> first(static_cast<size_t>(experts) + 1);
  for (const int32_t expert : numbers) ++first[static_cast<size_t>(expert) + 1];
  for (size_t e = 1; e < first.size(); ++e) first[e] += first[e - 1];
  for (size_t i = 0; i < numbers.size(); ++i) {
    auto& own = groups.tokens[static_cast<size_t>(numbers[i])];
    groups.place.values<int32_t>()[i] =
        first[static_cast<size_t>(numbers[i])] + static_cast<int32_t>(own.size());
    own.push_back(static_cast<int32_t>(i) / static_cast<int32_t>(chosen.cols()));
    groups.pairs[static_cast<size_t>(numbers[i])].push_back(static_cast<int32_t>(i));
  }
  return groups;
}

Variable sigmoid(const Variable& x) { return 0.5f * activate(0.5f * x, Activation::tanh, {}) + 0.5f; }

}  // namespace

void ExpertOptions::validate() const {
  if (count < 0 || count > kMaxExperts)
    throw UsageError(concat("experts: expected 0 to ", kMaxExperts, ", found ", count));
  if (count > 0 && (per_token < 1 || per_token > count))
    throw UsageError(concat("experts_per_token: expected 1 to ", count, ", found ", per_token));
  if (!(sparse_mixer >= 0) || (sparse_mixer > 0 && count > 0 && per_token != 2))
    throw UsageError(concat("sparse_mixer: expected 0, or more with 2 experts a token, found ", sparse_mixer,
                            " with ", per_token));
  if (!std::isfinite(scale)) throw UsageError(concat("scale of experts: expected a number, found ", scale));
  if (count > 0 &&
      (groups < 1 || count % groups != 0 || group_choices < 1 || group_choices > groups || group_scores < 1 ||
       (groups > 1 && group_scores > count / groups) || per_token > group_choices * (count / groups)))
    throw UsageError(concat("groups of experts: expected equal groups of ", count,
                            " experts, of which some have ", per_token, ", found ", groups,
                            " groups, of which ", group_choices, " are chosen by the best ", group_scores));
  if (sparse_mixer > 0 && (sigmoid || groups > 1 || correction_bias))
    throw UsageError("sparse_mixer: expected no sigmoid, groups of experts or correction, found one");
  if (shared_d_ff < 0) throw UsageError(concat("shared_d_ff: expected 0 or more, found ", shared_d_ff));
}

Experts::Experts(const DenseFeedForwardOptions& expert, const ExpertOptions& options)
    : options_(validated(options)),
      router_weight_(Shape{options.count, expert.d_model}, {Initializer::Kind::xavier_uniform}),
      router_bias_(options.router_bias ? Parameter(Shape{options.count}, {}) : Parameter()),
      correction_bias_(options.correction_bias ? Parameter(Shape{options.count}, {}) : Parameter()),
      router_({router_weight_.weight()}, {router_bias_.variable}) {
  for (int64_t e = 0; e < options.count; ++e) experts_.emplace_back(expert);
  if (options.shared_d_ff == 0) return;
  DenseFeedForwardOptions shared = expert;
  shared.d_ff = options.shared_d_ff;
  shared_.emplace(shared);
  if (options.shared_gate)
    shared_gate_.emplace(LinearOptions{.inputs = expert.d_model, .outputs = 1, .bias = false});
}

Variable Experts::probabilities(const Variable& logits) const {
  return options_.sigmoid ? nn::sigmoid(logits) : softmax(logits);
}

Tensor Experts::within_groups(const Tensor& given) const {
  if (options_.groups == 1) return given;
  Tensor scores = given.clone();
  const auto groups = static_cast<size_t>(options_.groups);
  const auto width = static_cast<size_t>(options_.count) / groups;
  std::vector<float> best(width), of_groups(groups);
  std::vector<size_t> order(groups);
  for (int64_t token = 0; token < scores.rows(); ++token) {
    float* row = scores.data() + token * options_.count;
    for (size_t g = 0; g < groups; ++g) {
      best.assign(row + g * width, row + (g + 1) * width);
      std::ranges::sort(best, std::greater<>());
      of_groups[g] = 0;
      for (int64_t i = 0; i < options_.group_scores; ++i) of_groups[g] += best[static_cast<size_t>(i)];
      order[g] = g;
    }
    std::ranges::stable_sort(order, [&](size_t a, size_t b) { return of_groups[a] > of_groups[b]; });
    for (auto left = static_cast<size_t>(options_.group_choices); left < groups; ++left)
      std::fill_n(row + order[left] * width, width, -std::numeric_limits<float>::infinity());
  }
  return scores;
}

Tensor Experts::scores(const Tensor& logits) const {
  if (!correction_bias_.defined() && options_.groups == 1) return logits;
  Variable scores = options_.corrects_logits ? logits : probabilities(logits);
  if (correction_bias_.defined()) scores = scores + correction_bias_.variable.value();
  return scores.value();
}

Variable Experts::competing(const Variable& logits, const Tensor& host, const Tensor& chosen) const {
  const int64_t tokens = chosen.rows(), count = options_.count;
  Tensor rows = Tensor::empty({2 * tokens}, DType::i32), added = Tensor::zeros({2 * tokens, count});
  for (int64_t pair = 0; pair < 2 * tokens; ++pair) {
    const float* z = host.data() + pair / 2 * count;
    const int32_t* experts = chosen.data<int32_t>() + pair / 2 * 2;
    const float largest = z[experts[pair % 2]];
    rows.data<int32_t>()[pair] = static_cast<int32_t>(pair / 2);
    for (int64_t e = 0; e < count; ++e) {
      const float below = (largest - z[e]) / std::max(std::abs(z[e]), largest);
      if (below > 2 * options_.sparse_mixer || (pair % 2 == 1 && e == experts[0]))
        added.data()[pair * count + e] = -std::numeric_limits<float>::infinity();
    }
  }
  return gather(logits, rows) + from_host(added, logits.value().device());
}

Variable Experts::weights(const Variable& logits, const Tensor& host, const Tensor& chosen) const {
  const int64_t tokens = chosen.rows(), count = options_.count;
  Tensor elements = Tensor::empty({chosen.numel()}, DType::i32);
  for (int64_t i = 0; i < chosen.numel(); ++i) {
    elements.data<int32_t>()[i] = static_cast<int32_t>(i / chosen.cols() * count) + chosen.data<int32_t>()[i];
  }
  if (options_.sparse_mixer > 0) {
    for (int64_t i = 0; i < chosen.numel(); ++i)
      elements.data<int32_t>()[i] = static_cast<int32_t>(i * count) + chosen.data<int32_t>()[i];
    return gather(reshape(softmax(competing(logits, host, chosen)), {chosen.numel() * count, 1}), elements);
  }
  const auto of_chosen = [&](const Variable& x) { return gather(reshape(x, {tokens * count, 1}), elements); };
  const auto scaled = [&](const Variable& x) { return options_.scale == 1 ? x : x * options_.scale; };
  if (!options_.normalise) return scaled(of_chosen(probabilities(logits)));
  const Variable own = reshape(of_chosen(options_.sigmoid ? probabilities(logits) : logits), chosen.shape());
  if (!options_.sigmoid) return scaled(reshape(softmax(own), {chosen.numel(), 1}));
  constexpr float kNotZero = 1e-20f;
  return scaled(reshape(own / (sum(own, 1, KeepAxis::yes) + kNotZero), {chosen.numel(), 1}));
}

Variable Experts::operator()(const Variable& x, ForwardContext& context) const {
  const int64_t tokens = x.shape()[0], d_model = x.shape()[-1];
  if (tokens == 0) return x;
  const WeightLayout layout = context.training ? WeightLayout::packed : WeightLayout::in_place;  // not bf16
  const DType dtype = x.value().dtype();
  const Variable rows_of_all = to_f32(x);  // routed and summed in f32
  const Variable own_logits = linear(rows_of_all, router_, layout);
  // The only wait for a device.
  const Tensor host = to_host(scores(own_logits.value()));
  const Tensor chosen = largest(within_groups(host), options_.per_token);
  const Variable logits = balanced(own_logits, chosen, context.balance);
  const Variable factors = options_.weighs_inputs ? weights(logits, host, chosen) : Variable();
  const Groups groups = grouped(chosen, options_.count);
  std::vector<Variable> parts;
  for (size_t e = 0; e < experts_.size(); ++e) {
    const std::vector<int32_t>& rows = groups.tokens[e];
    // In training all have a gradient, if of zeros, as their weights are one parameter elsewhere.
    if (rows.empty() && !context.training) continue;
    const NameScope scope("experts", static_cast<int>(e));
    Variable read = in_dtype(gather(rows_of_all, Tensor::from(rows, {std::ssize(rows)})), dtype);
    if (options_.weighs_inputs) {
      const std::vector<int32_t>& pairs = groups.pairs[e];
      read = read * gather(factors, Tensor::from(pairs, {std::ssize(pairs)}));
    }
    parts.push_back(experts_[e](read, context));
  }
  Variable outputs = gather(to_f32(concatenate(parts, 0)), groups.place);
  if (!options_.weighs_inputs) outputs = outputs * weights(logits, host, chosen);
  Variable y = sum(reshape(outputs, {tokens, options_.per_token, d_model}), 1);
  if (!shared_) return in_dtype(y, dtype);
  Variable shared = (*shared_)(x, context);
  if (shared_gate_) shared = shared * sigmoid((*shared_gate_)(x, context));
  return in_dtype(options_.shared_mean ? 0.5f * (y + shared) : y + shared, dtype);
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
