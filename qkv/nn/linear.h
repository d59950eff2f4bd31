#pragma once

#include <functional>
#include <vector>

#include "qkv/kernels/kinds.h"
#include "qkv/nn/forward_context.h"
#include "qkv/nn/parameter.h"
#include "qkv/ops/linear.h"

namespace qkv::nn {

struct LinearOptions {
  int64_t inputs = 0, outputs = 0;
  bool bias = true;
};

// y = x W^T + b: x f32 [tokens, inputs] -> f32 [tokens, outputs], weight [outputs, inputs], bias [outputs].
class Linear {
 public:
  // Throws UsageError for a size below 1.
  explicit Linear(const LinearOptions& options);

  // Reads the weight in the layout of the context: packed in training, in place otherwise. Throws the errors
  // of linear().
  Variable operator()(const Variable& x, const ForwardContext& context) const {
    return linear(x, weights_, context.weight_layout());
  }
  // dropout(activation(y)).
  Variable operator()(const Variable& x, kernels::Activation activation, const kernels::Dropout& dropout,
                      const ForwardContext& context) const;
  // Of an input that is computed again, from `reads`, in the backward pass (ops/linear_of.h).
  Variable of(std::function<Variable()> input, const std::vector<Variable>& reads,
              const ForwardContext& context) const;
  // Inference.
  Variable operator()(const Variable& x) const { return linear(x, weights_); }
  Variable operator()(const Variable& x, kernels::Activation activation) const;
  void visit(const ParameterVisitor& visitor) const;

  const LinearWeights& map() const { return weights_; }
  const Parameter& weight() const { return weight_; }
  const Parameter& bias() const { return bias_; }  // undefined if there is none

 private:
  Parameter weight_, bias_;
  LinearWeights weights_;
};

}  // namespace qkv::nn
