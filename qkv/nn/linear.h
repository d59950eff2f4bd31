#pragma once

#include "qkv/nn/parameter.h"
#include "qkv/ops/linear.h"

namespace qkv::nn {

struct LinearOptions {
  int64_t inputs = 0, outputs = 0;
  bool bias = true;
};

// y = x W^T + b: weight [outputs, inputs], bias [outputs].
class Linear {
 public:
  explicit Linear(const LinearOptions& options);

  Variable operator()(const Variable& x) const { return linear(x, weights_); }
  // dropout(activation(y)).
  Variable operator()(const Variable& x, kernels::Activation activation,
                      const kernels::Dropout& dropout) const {
    return linear_activate(x, weights_, activation, dropout);
  }
  void visit(const ParameterVisitor& visitor) const;

  const Parameter& weight() const { return weight_; }
  const Parameter& bias() const { return bias_; }  // undefined without one

 private:
  Parameter weight_, bias_;
  LinearWeights weights_;
};

}  // namespace qkv::nn
