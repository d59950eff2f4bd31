#include "qkv/nn/linear.h"

namespace qkv::nn {
namespace {

Parameter bias_of(const LinearOptions& options) {
  return options.bias ? Parameter(Shape{options.outputs}, {Initializer::Kind::zeros}) : Parameter();
}

}  // namespace

Linear::Linear(const LinearOptions& options)
    : weight_(Shape{options.outputs, options.inputs}, {Initializer::Kind::xavier_uniform}),
      bias_(bias_of(options)),
      weights_({weight_.variable}, {bias_.variable}) {}

void Linear::visit(const ParameterVisitor& visitor) const {
  visitor("weight", weight_);
  if (bias_.defined()) visitor("bias", bias_);
}

}  // namespace qkv::nn
