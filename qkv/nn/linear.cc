#include "qkv/nn/linear.h"

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

void Linear::visit(const ParameterVisitor& visitor) const {
  visitor("weight", weight_);
  if (bias_.defined()) visitor("bias", bias_);
}

}  // namespace qkv::nn
