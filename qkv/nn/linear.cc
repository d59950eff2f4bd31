#include "qkv/nn/linear.h"

#include <utility>

#include "qkv/ops/linear_activate.h"
#include "qkv/ops/linear_of.h"

namespace qkv::nn {
namespace {

LinearOptions checked(const LinearOptions& options) {
  if (options.inputs >= 1 && options.outputs >= 1) return options;
  throw UsageError(concat("linear: inputs and outputs: expected at least 1, found ", options.inputs, " and ",
                          options.outputs));
}

Parameter bias_of(const LinearOptions& options) {
  return options.bias ? Parameter(Shape{options.outputs}, {Initializer::Kind::zeros}) : Parameter();
}

}  // namespace

Linear::Linear(const LinearOptions& options)
    : weight_(Parameter::weight_matrix(Shape{checked(options).outputs, options.inputs},
                                       {Initializer::Kind::xavier_uniform})),
      bias_(bias_of(options)),
      weights_({weight_.weight()}, {bias_.variable}) {}

Variable Linear::operator()(const Variable& x, kernels::Activation activation,
                            const kernels::Dropout& dropout, const ForwardContext& context) const {
  return linear_activate(x, weights_, activation, dropout, context.weight_layout());
}

Variable Linear::of(std::function<Variable()> input, const std::vector<Variable>& reads,
                    const ForwardContext& context) const {
  return linear_of(std::move(input), reads, weights_, context.weight_layout());
}

Variable Linear::operator()(const Variable& x, kernels::Activation activation) const {
  return linear_activate(x, weights_, activation);
}

void Linear::visit(const ParameterVisitor& visitor) const {
  visitor("weight", weight_);
  if (bias_.defined()) visitor("bias", bias_);
}

}  // namespace qkv::nn
