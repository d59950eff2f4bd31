#include "qkv/ops/norm.h"

#include "qkv/kernels/norm.h"
#include "qkv/ops/profile.h"
#include "qkv/ops/require.h"

namespace qkv {

using kernels::NormKind;

Variable residual(const Variable& x, const Variable& residual, const Dropout& dropout) {
  const ProfileScope profile("residual");
  require_same("residual", x, residual);
  require_dropout("residual", dropout);
  Tensor sum = empty_like(x.value());
  kernels::norm_forward({.x = x.value(), .residual = residual.value(), .dropout = dropout, .sum = sum});
  if (!Tape::records({x, residual})) return sum;
  return Tape::record("residual", sum, {{x, false}, {residual, false}}, [=](const Tensor& dy) {
    if (x.requires_grad()) kernels::dropout_backward(dy, {}, x.gradient_slot());
    if (residual.requires_grad()) kernels::dropout_backward(dy, dropout, residual.gradient_slot());
  });
}

namespace {

void require_features(const char* operation, const Variable& x, const char* what, const Variable& features) {
  require_matrix(operation, x);
  if (features.defined()) require_f32(operation, features.value());
  const Shape found = features.defined() ? features.shape() : Shape{};
  if (found != Shape{x.value().cols()}) {
    throw ShapeError(
        concat(operation, ": x ", x.shape(), " needs a ", what, " [", x.value().cols(), "], found ", found));
  }
}

// The norm of x, or of x + dropout(residual) if `residual` is defined. rms has no bias.
Variable norm(const char* operation, NormKind kind, const Variable& x, const Variable& residual,
              const Dropout& dropout, const Variable& weight, const Variable& bias, float epsilon,
              Reuse residual_reuse) {
  const ProfileScope profile(operation);
  require_features(operation, x, "weight", weight);
  if (kind == NormKind::layer) require_features(operation, x, "bias", bias);
  if (residual.defined()) require_same(operation, x, residual);
  require_dropout(operation, dropout);
  const int64_t rows = x.value().rows();
  const Device device = x.value().device();
  const bool records = Tape::records({x, residual, weight, bias});
  Tensor y = empty_like(x.value());
  // Needed only for the backward pass.
  Tensor sum;
  const bool in_place = residual_reuse == Reuse::in_place && !(residual == x);
  if (residual.defined() && records) {
    sum = in_place ? residual.value() : empty_like(x.value());
  }
  Tensor mean = Tensor::empty({rows}, DType::f32, device), rstd = empty_like(mean);
  kernels::norm_forward({.x = x.value(),
                         .residual = residual.defined() ? residual.value() : Tensor(),
                         .dropout = dropout,
                         .kind = kind,
                         .weight = weight.value(),
                         .bias = bias.defined() ? bias.value() : Tensor(),
                         .epsilon = epsilon,
                         .sum = sum,
                         .y = y,
                         .mean = mean,
                         .rstd = rstd});
  if (!records) return y;
  const Tape::Input saved_x{x, !residual.defined()}, saved_residual{residual, in_place};
  return Tape::record(operation, y, {saved_x, saved_residual, weight, {bias, false}}, [=](const Tensor& dy) {
    // The gradient of the sum is x's; the residual's has dropout applied.
    kernels::norm_backward({.kind = kind,
                            .dropout = dropout,
                            .z = residual.defined() ? sum : x.value(),
                            .weight = weight.value(),
                            .mean = mean,
                            .rstd = rstd,
                            .dy = dy,
                            .dz = gradient_slot_of(x),
                            .residual = gradient_slot_of(residual),
                            .d_weight = gradient_slot_of(weight),
                            .d_bias = gradient_slot_of(bias)});
  });
}

}  // namespace

Variable layer_norm(const Variable& x, const Variable& weight, const Variable& bias, float epsilon) {
  return norm("layer_norm", NormKind::layer, x, {}, {}, weight, bias, epsilon, Reuse::none);
}

Variable residual_layer_norm(const Variable& x, const Variable& residual, const Dropout& dropout,
                             const Variable& weight, const Variable& bias, float epsilon,
                             Reuse residual_reuse) {
  return norm("residual_layer_norm", NormKind::layer, x, residual, dropout, weight, bias, epsilon,
              residual_reuse);
}

Variable rms_norm(const Variable& x, const Variable& weight, float epsilon) {
  return norm("rms_norm", NormKind::rms, x, {}, {}, weight, {}, epsilon, Reuse::none);
}

Variable residual_rms_norm(const Variable& x, const Variable& residual, const Dropout& dropout,
                           const Variable& weight, float epsilon, Reuse residual_reuse) {
  return norm("residual_rms_norm", NormKind::rms, x, residual, dropout, weight, {}, epsilon, residual_reuse);
}

}  // namespace qkv
