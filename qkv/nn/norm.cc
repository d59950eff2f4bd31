#include "qkv/nn/norm.h"

#include "qkv/base/error.h"
#include "qkv/ops/convert.h"
#include "qkv/ops/general/arithmetic.h"
#include "qkv/ops/general/drop_path.h"
#include "qkv/ops/general/reshape.h"
#include "qkv/ops/general/scale.h"
#include "qkv/ops/general/slice.h"
#include "qkv/ops/norm.h"

namespace qkv::nn {

Norm::Norm(const NormOptions& options)
    : kind_(options.kind),
      features_(options.features),
      parts_(options.parts),
      weight_(options.weight && options.parts == 1
                  ? Parameter(Shape{options.features}, {Initializer::Kind::ones})
                  : Parameter()),
      bias_(options.kind == NormKind::layer && options.bias && options.parts == 1
                ? Parameter(Shape{options.features}, {Initializer::Kind::zeros})
                : Parameter()),
      epsilon_(options.epsilon) {
  for (int64_t i = 0; i < parts_ && parts_ > 1 && options.weight; ++i)
    part_weights_.emplace_back(Shape{features_}, Initializer{Initializer::Kind::ones});
}

Variable Norm::factors(Device device) const {
  return weight_.defined() ? weight_.variable : Tensor::full({features_}, 1.0f, device);
}

Variable Norm::shift(Device device) const {
  return bias_.defined() ? bias_.variable : Tensor::zeros({features_}, DType::f32, device);
}

Variable Norm::normalised(const Variable& x) const {
  const Device device = x.value().device();
  return kind_ == NormKind::rms ? rms_norm(x, factors(device), epsilon_)
                                : layer_norm(x, factors(device), shift(device), epsilon_);
}

Variable Norm::operator()(const Variable& x) const {
  if (parts_ == 1) return normalised(x);
  const int64_t rows = x.value().rows();
  const Variable y = normalised(reshape(x, {rows * parts_, features_}));
  Variable joined = reshape(y, {rows, parts_ * features_});
  if (part_weights_.empty()) return joined;
  std::vector<Variable> weights;
  for (const Parameter& weight : part_weights_) weights.push_back(weight.variable);
  return joined * concatenate(weights, 0);
}

Variable Norm::add_norm(const Variable& x, const Variable& sublayer, const Dropout& dropout) const {
  if (parts_ > 1) throw UsageError(concat("norm: expected one part with a residual sum, found ", parts_));
  const Device device = x.value().device();
  if (kind_ == NormKind::rms)
    return residual_rms_norm(x, sublayer, dropout, factors(device), epsilon_, Reuse::in_place);
  return residual_layer_norm(x, sublayer, dropout, factors(device), shift(device), epsilon_, Reuse::in_place);
}

Residual::Residual(const Options& options)
    : placement_(options.placement),
      scale_(options.scale),
      dropout_(options.dropout),
      drop_path_(options.drop_path) {
  if (!options.normed && placement_ != NormPlacement::pre)
    throw UsageError("layer: attention_norm: expected true unless norms precede the sublayers, found false");
  if (placement_ != NormPlacement::output && options.normed) norm_.emplace(options.norm);
  if (placement_ == NormPlacement::output || placement_ == NormPlacement::both)
    output_norm_.emplace(options.norm);
  if (options.layer_scale) layer_scale_ = Parameter(Shape{options.norm.features}, {Initializer::Kind::ones});
}

Variable Residual::input(const Variable& x) const {
  const bool before = placement_ == NormPlacement::pre || placement_ == NormPlacement::both;
  return before && norm_ ? (*norm_)(x) : x;
}

Variable Residual::add(const Variable& x, const Variable& sublayer, const Offsets& offsets,
                       ForwardContext& context) const {
  Variable added = output_norm_ ? (*output_norm_)(sublayer) : sublayer;
  if (scale_ != 1) added = scaled(added, scale_);
  if (layer_scale_.defined()) added = in_dtype(to_f32(added) * layer_scale_.variable, added.value().dtype());
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
  if (layer_scale_.defined()) visitor(name + "_layer_scale", layer_scale_);
}

void Norm::visit(const ParameterVisitor& visitor) const {
  if (weight_.defined()) visitor("weight", weight_);
  for (size_t i = 0; i < part_weights_.size(); ++i) visitor(concat(i, ".weight"), part_weights_[i]);
  if (bias_.defined()) visitor("bias", bias_);
}

}  // namespace qkv::nn
