#include "qkv/nn/norm.h"

namespace qkv::nn {

LayerNorm::LayerNorm(int64_t features, float epsilon)
    : weight_(Shape{features}, {Initializer::Kind::ones}),
      bias_(Shape{features}, {Initializer::Kind::zeros}),
      epsilon_(epsilon) {}

Variable LayerNorm::operator()(const Variable& x) const {
  return layer_norm(x, weight_.variable, bias_.variable, epsilon_);
}

Variable LayerNorm::of_sum(const Variable& x, const Variable& branch, const Dropout& dropout) const {
  return residual_layer_norm(x, branch, dropout, weight_.variable, bias_.variable, epsilon_,
                             Afterwards::used_up);
}

void LayerNorm::visit(const ParameterVisitor& visitor) const {
  visitor("weight", weight_);
  visitor("bias", bias_);
}

}  // namespace qkv::nn
