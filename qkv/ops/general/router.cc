#include "qkv/ops/general/router.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "qkv/base/scope.h"
#include "qkv/kernels/loss.h"
#include "qkv/kernels/router.h"
#include "qkv/ops/profile.h"
#include "qkv/ops/require.h"

namespace qkv {
namespace {

void add_to(std::vector<double>& sums, const std::vector<double>& more) {
  sums.resize(more.size());
  std::ranges::transform(sums, more, sums.begin(), std::plus());
}

void require_logits(const char* operation, const Tensor& logits, const RouterRule& rule) {
  require_matrix(operation, logits);
  const bool groups = rule.groups >= 1 && rule.experts % rule.groups == 0 && rule.group_choices >= 1 &&
                      rule.group_choices <= rule.groups && rule.group_scores >= 1 &&
                      rule.group_scores <= rule.experts / rule.groups;
  if (logits.cols() == rule.experts && rule.per_token >= 1 && rule.per_token <= rule.experts && groups &&
      (rule.sparse_mixer == 0 || rule.per_token == 2))
    return;
  throw ShapeError(concat(operation, ": logits ", logits.shape(), " do not fit ", rule.per_token, " of ",
                          rule.experts, " experts in ", rule.groups, " groups"));
}

}  // namespace

Tensor choose_experts(const Tensor& logits, const Tensor& correction, const RouterRule& rule) {
  const ProfileScope profile("choose_experts");
  require_logits("choose_experts", logits, rule);
  if (correction.defined() && (correction.dtype() != DType::f32 || correction.numel() != rule.experts))
    throw ShapeError(concat("choose_experts: expected an f32 correction of ", rule.experts,
                            " experts, found ", name_of(correction.dtype()), " ", correction.shape()));
  Tensor chosen = Tensor::empty({logits.rows(), rule.per_token}, DType::i32, logits.device());
  kernels::choose_experts(rule, logits, correction, chosen);
  return chosen;
}

Variable expert_weights(const Variable& logits, const Tensor& chosen, const RouterRule& rule) {
  const ProfileScope profile("expert_weights");
  const Tensor& z = logits.value();
  require_logits("expert_weights", z, rule);
  if (chosen.dtype() != DType::i32 || chosen.shape() != Shape{z.rows(), rule.per_token})
    throw ShapeError(concat("expert_weights: expected the experts i32 [", z.rows(), ", ", rule.per_token,
                            "], found ", name_of(chosen.dtype()), " ", chosen.shape()));
  Tensor weights = Tensor::empty({z.rows(), rule.per_token}, DType::f32, z.device());
  kernels::expert_weights(rule, z, chosen, weights);
  if (!Tape::records({logits})) return weights;
  return Tape::record("expert_weights", weights, {{logits, true}}, [=](const Tensor& d_weights) {
    kernels::GradientSlot slot = logits.gradient_slot();
    kernels::expert_weights_backward(rule, logits.value(), chosen, d_weights, slot);
  });
}

RouterBalance::Layer RouterBalance::total() const {
  Layer sum;
  for (const auto& [name, layer] : layers_) {
    if (!sum.chosen.empty() && layer.chosen.size() != sum.chosen.size()) {
      throw UsageError(concat(name, ": balancing loss: expected ", sum.chosen.size(),
                              " experts, as in the layers before, found ", layer.chosen.size()));
    }
    sum.rows += layer.rows;
    add_to(sum.chosen, layer.chosen);
    add_to(sum.probability, layer.probability);
  }
  return sum;
}

double RouterBalance::loss() const {
  const Layer sum = total();
  if (sum.rows == 0) return 0;
  const double products =
      std::inner_product(sum.chosen.begin(), sum.chosen.end(), sum.probability.begin(), 0.0);
  return static_cast<double>(sum.chosen.size()) * products / (sum.rows * sum.rows);
}

Variable balanced(const Variable& logits, const Tensor& chosen,
                  const std::shared_ptr<RouterBalance>& balance) {
  if (!balance) return logits;
  require_matrix("balanced", logits);
  const int64_t rows = logits.value().rows(), experts = logits.value().cols();
  if (chosen.rank() != 2 || chosen.dtype() != DType::i32 || chosen.rows() != rows)
    throw ShapeError(concat("balanced: expected the experts of ", rows, " rows, found ", chosen.shape()));
  Tensor there = empty_like(logits.value());
  kernels::softmax(logits.value(), there);
  const Tensor probability = to_host(there);
  RouterBalance::Layer& layer = balance->layers_[NameScope::current()];
  layer = {static_cast<double>(rows), std::vector<double>(static_cast<size_t>(experts)),
           std::vector<double>(static_cast<size_t>(experts))};
  for (const int32_t expert : chosen.values<int32_t>()) ++layer.chosen.at(static_cast<size_t>(expert));
  for (int64_t i = 0; i < probability.numel(); ++i)
    layer.probability[static_cast<size_t>(i % experts)] += double{probability.data()[i]};
  if (!Tape::records({logits})) return logits;
  return Tape::record("balanced", logits.value(), {{logits, false}}, [=](const Tensor& dy) {
    logits.add_grad(dy);
    const RouterBalance::Layer sum = balance->total();
    // d loss / d p_e = E f_e / rows, the same for each row; d p_e / d z_j = p_e ((e == j) - p_j).
    const double slope = balance->factor_ * static_cast<double>(experts) / (sum.rows * sum.rows);
    Tensor gradient = Tensor::empty(probability.shape());
    for (int64_t row = 0; row < rows; ++row) {
      const float* const p = probability.data() + row * experts;
      const double mean = std::inner_product(p, p + experts, sum.chosen.begin(), 0.0);
      std::transform(
          p, p + experts, sum.chosen.begin(), gradient.data() + row * experts,
          [&](float own, double times) { return static_cast<float>(slope * double{own} * (times - mean)); });
    }
    logits.add_grad(from_host(gradient, logits.value().device()));
  });
}

}  // namespace qkv
