#include "qkv/nn/feed_forward.h"

#include "qkv/base/error.h"
#include "qkv/ops/activation.h"
#include "qkv/ops/gated.h"
#include "qkv/ops/general/arithmetic.h"
#include "qkv/ops/general/reshape.h"
#include "qkv/ops/general/slice.h"
#include "qkv/ops/general/softmax.h"

namespace qkv::nn {
namespace {

Variable above(const Variable& x, float limit) { return activate(x - limit, Activation::relu, {}); }

Variable clamped_gate(const Variable& gate, const Variable& up, const GateClamp& clamp,
                      const Dropout& dropout) {
  const Variable g = gate - above(gate, clamp.limit);
  const Variable u = up - above(up, clamp.limit) + above(-up, clamp.limit);
  const Variable y = (u + 1.0f) * activate(clamp.alpha * g, Activation::silu, {}) / clamp.alpha;
  return dropout.active() ? activate(y, Activation::identity, dropout) : y;
}

// Of gate and fc1 side by side.
Variable gated_inner(const Variable& both, Activation activation, const GateClamp& clamp,
                     const Dropout& dropout) {
  const int64_t d_ff = both.value().cols() / 2;
  const Variable gate = both.columns(0, d_ff), up = both.columns(d_ff, d_ff);
  return clamp.limit > 0 ? clamped_gate(gate, up, clamp, dropout) : gated(gate, up, activation, dropout);
}

LinearOptions inner_options(const DenseFeedForwardOptions& options) {
  return {.inputs = options.d_model, .outputs = options.d_ff, .bias = options.bias && options.inner_bias};
}

constexpr float kBeta = 0.5f;  // of xIELU

// ln(1 + e^x), [1] -> [1, 1]: of the softmax of 0 and x, less the logarithm of the former.
Variable softplus(const Parameter& x) {
  const Variable zero = Tensor::zeros({1, 1}, DType::f32, x.variable.value().device());
  return -slice(log_softmax(concatenate({zero, reshape(x.variable, {1, 1})}, 1)), 1, 0, 1);
}

}  // namespace

DenseFeedForward::DenseFeedForward(const DenseFeedForwardOptions& options)
    : fc1_(inner_options(options)),
      fc2_({.inputs = options.d_ff, .outputs = options.d_model, .bias = options.bias}),
      activation_(options.activation),
      clamp_(options.clamp),
      dropout_(options.dropout) {
  if (!(clamp_.limit >= 0) || (clamp_.limit > 0 && !(options.gated && clamp_.alpha > 0))) {
    throw UsageError(
        concat("feed-forward: clamp: expected a limit of 0, or more with a gate and an alpha above 0, found ",
               clamp_.limit, " and ", clamp_.alpha));
  }
  if (options.xielu) {
    if (options.gated) throw UsageError("feed-forward: xielu: expected no gate, found one");
    alpha_p_ = Parameter(Shape{1}, {Initializer::Kind::zeros});
    alpha_n_ = Parameter(Shape{1}, {Initializer::Kind::zeros});
  }
  if (!options.gated) return;
  gate_.emplace(inner_options(options));
  both_.emplace(std::vector{gate_->weight().weight(), fc1_.weight().weight()},
                std::vector{gate_->bias().variable, fc1_.bias().variable});
}

Variable DenseFeedForward::operator()(const Variable& x, ForwardContext& context) const {
  const Dropout dropout = context.dropout(dropout_);
  if (gate_) {
    const Variable inner = linear(x, *both_, context.weight_layout());
    return fc2_.of([inner, activation = activation_, clamp = clamp_,
                    dropout] { return gated_inner(inner, activation, clamp, dropout); },
                   {inner}, context);
  }
  if (alpha_p_.defined())
    return fc2_(activate(xielu(fc1_(x, context)), Activation::identity, dropout), context);
  // The gradient of relu follows from its result, which the second product needs too. That of other
  // activations follows from their input, from which the result is computed again.
  if (!context.training || activation_ == Activation::relu)
    return fc2_(fc1_(x, activation_, dropout, context), context);
  const Variable inner = fc1_(x, context);
  return fc2_.of([inner, activation = activation_, dropout] { return activate(inner, activation, dropout); },
                 {inner}, context);
}

Variable DenseFeedForward::activated(const Variable& inner) const {
  if (gate_) return gated_inner(inner, activation_, clamp_, {});
  return alpha_p_.defined() ? xielu(inner) : activate(inner, activation_);
}

Variable DenseFeedForward::xielu(const Variable& x) const {
  // e^x - 1 = 2 t / (1 - t), t = tanh(x / 2), which does not cancel near 0.
  const Variable below = -activate(-x, Activation::relu);
  const Variable t = activate(0.5f * below, Activation::tanh);
  const Variable curve = 2.0f * t / (1.0f - t) - below;
  return softplus(alpha_p_) * activate(x, Activation::relu_squared) + (softplus(alpha_n_) + kBeta) * curve +
         kBeta * x;
}

void DenseFeedForward::visit(const ParameterVisitor& visitor) const {
  visit_part(visitor, "fc1", fc1_);
  visit_part(visitor, "fc2", fc2_);
  if (gate_) visit_part(visitor, "gate", *gate_);
  if (!alpha_p_.defined()) return;
  visitor("xielu.alpha_p", alpha_p_);
  visitor("xielu.alpha_n", alpha_n_);
}

}  // namespace qkv::nn
