#include "qkv/nn/norm.h"

#include "qkv/ops/general/drop_path.h"
#include "qkv/ops/general/scale.h"
#include "qkv/ops/norm.h"

namespace qkv::nn {

Norm::Norm(const NormOptions& options)
    : kind_(options.kind),
      weight_(Shape{options.features}, {Initializer::Kind::ones}),
      bias_(options.kind == NormKind::layer && options.bias
                ? Parameter(Shape{options.features}, {Initializer::Kind::zeros})
                : Parameter()),
      epsilon_(options.epsilon) {}

Variable Norm::shift() const {
  if (bias_.defined()) return bias_.variable;
  const Tensor& weight = weight_.variable.value();
  return Tensor::zeros(weight.shape(), DType::f32, weight.device());
}

Variable Norm::operator()(const Variable& x) const {
  return kind_ == NormKind::rms ? rms_norm(x, weight_.variable, epsilon_)
                                : layer_norm(x, weight_.variable, shift(), epsilon_);
}

Variable Norm::add_norm(const Variable& x, const Variable& sublayer, const Dropout& dropout) const {
  if (kind_ == NormKind::rms) {
    return residual_rms_norm(x, sublayer, dropout, weight_.variable, epsilon_, Reuse::in_place);
  }
  return residual_layer_norm(x, sublayer, dropout, weight_.variable, shift(), epsilon_, Reuse::in_place);
}

Residual::Residual(const Options& options)
    : placement_(options.placement),
      scale_(options.scale),
      dropout_(options.dropout),
      drop_path_(options.drop_path) {
  if (placement_ != NormPlacement::output) norm_.emplace(options.norm);
  if (placement_ == NormPlacement::output || placement_ == NormPlacement::both)
    output_norm_.emplace(options.norm);
}

Variable Residual::input(const Variable& x) const {
  return placement_ == NormPlacement::pre || placement_ == NormPlacement::both ? (*norm_)(x) : x;
}

Variable Residual::add(const Variable& x, const Variable& sublayer, const Offsets& offsets,
                       ForwardContext& context) const {
  Variable added = output_norm_ ? (*output_norm_)(sublayer) : sublayer;
  if (scale_ != 1) added = scaled(added, scale_);
  // Without stochastic depth there is no site, so that the sites of dropout keep their indices.
  if (drop_path_ != 0) {
    const Dropout drawn = context.drop_path(drop_path_);
    if (drawn.active()) added = drop_path(added, offsets, drawn);
  }
  const Dropout dropout = context.dropout(dropout_);
  return placement_ == NormPlacement::post ? norm_->add_norm(x, added, dropout) : residual(x, added, dropout);
}

void Residual::visit(const ParameterVisitor& visitor, const std::string& name) const {
  if (norm_) visit_part(visitor, name + "_layer_norm", *norm_);
  if (output_norm_) visit_part(visitor, name + "_output_norm", *output_norm_);
}

void Norm::visit(const ParameterVisitor& visitor) const {
  visitor("weight", weight_);
  if (bias_.defined()) visitor("bias", bias_);
}

}  // namespace qkv::nn
