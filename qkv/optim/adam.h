#pragma once
// Adam (Kingma and Ba 2015, algorithm 1) and AdamW (Loshchilov and Hutter 2019): m <- b1 m + (1 - b1) g,
// v <- b2 v + (1 - b2) g^2, w <- w - lr * m^ / (sqrt(v^) + epsilon).

#include "qkv/optim/optimizer.h"

namespace qkv::optim {

struct AdamOptions {
  // Values of Vaswani et al. 2017, section 5.3. (PyTorch's defaults are 0.999 and 1e-8.)
  float beta1 = 0.9f, beta2 = 0.98f, epsilon = 1e-9f;
  bool amsgrad = false;    // uses the largest v so far in place of v (Reddi et al. 2018)
  float weight_decay = 0;  // Adam: added to the gradient; AdamW: decoupled, w <- (1 - lr * weight_decay) * w

  // Throws UsageError naming the option, what was expected and what was found.
  void validate() const;
};

class Adam : public Optimizer {
 public:
  Adam(std::vector<NamedParameter> parameters, const AdamOptions& options = {},
       const OptimizerOptions& common = {})
      : Adam(std::move(parameters), options, common, false) {}
  template <class Module>
  explicit Adam(const Module& module, const AdamOptions& options = {}, const OptimizerOptions& common = {})
      : Adam(nn::parameters_of(module), options, common) {}

 protected:
  Adam(std::vector<NamedParameter> parameters, const AdamOptions& options, const OptimizerOptions& common,
       bool decoupled);

 private:
  void update(const kernels::OptimizerPass& pass, std::span<kernels::OptimizerSlot> slots) const override;

  AdamOptions options_;
  bool decoupled_;
};

class AdamW : public Adam {
 public:
  AdamW(std::vector<NamedParameter> parameters, const AdamOptions& options = {},
        const OptimizerOptions& common = {})
      : Adam(std::move(parameters), options, common, true) {}
  template <class Module>
  explicit AdamW(const Module& module, const AdamOptions& options = {}, const OptimizerOptions& common = {})
      : AdamW(nn::parameters_of(module), options, common) {}
};

}  // namespace qkv::optim
