#pragma once

#include <optional>

#include "qkv/kernels/kinds.h"
#include "qkv/nn/forward_context.h"
#include "qkv/nn/linear.h"

namespace qkv {
using kernels::Activation;
}

namespace qkv::nn {

// The position-wise sublayer of a layer: x [tokens, d_model] -> [tokens, d_model].
class FeedForward {
 public:
  virtual ~FeedForward() = default;
  virtual Variable operator()(const Variable& x, ForwardContext& context) const = 0;
  // Parameters are named within the enclosing block.
  virtual void visit(const ParameterVisitor& visitor) const = 0;
};

// Clamped SwiGLU (gpt-oss): with g = min(gate, limit) and u = x W_1 + b_1 within +-limit, the inner part of a
// gated feed-forward is (u + 1) g sigmoid(alpha g). Replaces the activation.
struct GateClamp {
  float limit = 0;  // 0: off
  float alpha = 1.702f;

  bool operator==(const GateClamp&) const = default;
};

struct DenseFeedForwardOptions {
  int64_t d_model = 0, d_ff = 0;
  Activation activation = Activation::relu;
  bool gated = false;
  GateClamp clamp = {};                 // of a gated one
  bool bias = true, inner_bias = true;  // of all layers; false: of the last one alone
  float dropout = 0;                    // after the activation
  bool xielu = false;                   // replaces the activation of one without a gate
};

// FFN(x) = dropout(activation(x W_1 + b_1)) W_2 + b_2 (Vaswani et al. 2017, equation 2), or gated:
// FFN(x) = dropout(activation(x W_g + b_g) * (x W_1 + b_1)) W_2 + b_2 (Shazeer 2020; SwiGLU with silu).
// The activation may be xIELU (Huang 2024) with learned a_p and a_n: softplus(a_p) x^2 + x / 2 for x > 0,
// else (softplus(a_n) + 1 / 2) (e^x - 1 - x) + x / 2.
class DenseFeedForward final : public FeedForward {
 public:
  explicit DenseFeedForward(const DenseFeedForwardOptions& options);
  Variable operator()(const Variable& x, ForwardContext& context) const override;
  // "fc1", "fc2" and, if gated, "gate"; with xIELU "xielu.alpha_p" and "xielu.alpha_n".
  void visit(const ParameterVisitor& visitor) const override;

  // For inference: FFN(x) = outer(activated(inner(x))).
  const LinearWeights& inner() const { return gate_ ? *both_ : fc1_.map(); }
  Variable activated(const Variable& inner) const;
  const LinearWeights& outer() const { return fc2_.map(); }

 private:
  Variable xielu(const Variable& x) const;

  Linear fc1_, fc2_;
  std::optional<Linear> gate_;
  std::optional<LinearWeights> both_;  // gate and fc1 as one product
  Activation activation_;
  GateClamp clamp_;
  float dropout_;
  Parameter alpha_p_, alpha_n_;  // of xIELU; undefined without
};

}  // namespace qkv::nn
