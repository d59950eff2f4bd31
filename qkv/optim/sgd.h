#pragma once
// Stochastic gradient descent with momentum: g <- g + weight_decay * w, b <- momentum * b + (1 - dampening) *
// g (initially b = g), w <- w - lr * b. Nesterov momentum (Sutskever et al. 2013) replaces b by g + momentum
// * b in the last formula.

#include "qkv/optim/optimizer.h"

namespace qkv::optim {

struct SgdOptions {
  float momentum = 0;      // 0: off
  float dampening = 0;     // reduces a gradient's contribution to the momentum
  bool nesterov = false;   // requires momentum and no dampening
  float weight_decay = 0;  // added to the gradient

  // Throws UsageError naming the option, what was expected and what was found.
  void validate() const;
};

class Sgd : public Optimizer {
 public:
  Sgd(std::vector<NamedParameter> parameters, const SgdOptions& options = {},
      const OptimizerOptions& common = {});
  template <class Module>
  explicit Sgd(const Module& module, const SgdOptions& options = {}, const OptimizerOptions& common = {})
      : Sgd(nn::parameters_of(module), options, common) {}

 private:
  void update(const kernels::OptimizerPass& pass, std::span<kernels::OptimizerSlot> slots) const override;

  SgdOptions options_;
};

}  // namespace qkv::optim
