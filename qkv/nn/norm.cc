#include "qkv/nn/norm.h"

#include "qkv/ops/general/drop_path.h"

namespace qkv::nn {

Norm::Norm(const NormOptions& options)
    : kind_(options.kind),
      weight_(Shape{options.features}, {Initializer::Kind::ones}),
      bias_(options.kind == NormKind::layer ? Parameter(Shape{options.features}, {Initializer::Kind::zeros})
                                            : Parameter()),
      epsilon_(options.epsilon) {}

Variable Norm::operator()(const Variable& x) const {
  return kind_ == NormKind::rms ? rms_norm(x, weight_.variable, epsilon_)
                                : layer_norm(x, weight_.variable, bias_.variable, epsilon_);
}

Variable Norm::add_norm(const Variable& x, const Variable& sublayer, const Dropout& dropout) const {
  if (kind_ == NormKind::rms) {
    return residual_rms_norm(x, sublayer, dropout, weight_.variable, epsilon_, Reuse::in_place);
  }
  return residual_layer_norm(x, sublayer, dropout, weight_.variable, bias_.variable, epsilon_,
                             Reuse::in_place);
}

Variable Residual::maybe_dropped(const Variable& sublayer, const Offsets& offsets,
                                 ForwardContext& context) const {
  // Without stochastic depth there is no site, so that the sites of dropout keep their indices.
  if (drop_path_ == 0) return sublayer;
  const Dropout drawn = context.drop_path(drop_path_);
  return drawn.active() ? drop_path(sublayer, offsets, drawn) : sublayer;
}

void Norm::visit(const ParameterVisitor& visitor) const {
  visitor("weight", weight_);
  if (bias_.defined()) visitor("bias", bias_);
}

}  // namespace qkv::nn
