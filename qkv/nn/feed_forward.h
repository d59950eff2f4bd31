#pragma once

#include <optional>

#include "qkv/nn/forward_context.h"
#include "qkv/nn/linear.h"
#include "qkv/ops/activation.h"

namespace qkv::nn {

struct FeedForwardOptions {
  int64_t d_model = 0, d_ff = 0;
  Activation activation = Activation::relu;
  bool gated = false;
  bool bias = true;
  float dropout = 0;  // after the activation
};

// FFN(x) = dropout(activation(x W_1 + b_1)) W_2 + b_2 (Vaswani et al. 2017, equation 2), or gated:
// FFN(x) = dropout(activation(x W_g + b_g) * (x W_1 + b_1)) W_2 + b_2 (Shazeer 2020; SwiGLU with silu).
class FeedForward {
 public:
  explicit FeedForward(const FeedForwardOptions& options);
  Variable operator()(const Variable& x, ForwardContext& context) const;
  // "fc1", "fc2" and, if gated, "gate", within the name of the enclosing block.
  void visit(const ParameterVisitor& visitor) const;

 private:
  Linear fc1_, fc2_;
  std::optional<Linear> gate_;
  std::optional<LinearWeights> both_;  // gate and fc1 as one product
  Activation activation_;
  float dropout_;
};

}  // namespace qkv::nn
