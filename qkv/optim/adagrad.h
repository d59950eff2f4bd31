#pragma once
// Adagrad (Duchi et al. 2011): g <- g + weight_decay * w, v <- v + g^2,
// w <- w - lr / (1 + (t - 1) * lr_decay) * g / (sqrt(v) + epsilon).

#include "qkv/optim/optimizer.h"

namespace qkv::optim {

struct AdagradOptions {
  float lr_decay = 0;
  float initial_accumulator = 0;  // v before the first step
  float epsilon = 1e-10f;
  float weight_decay = 0;  // added to the gradient

  // Throws UsageError naming the option, what was expected and what was found.
  void validate() const;
};

class Adagrad : public Optimizer {
 public:
  Adagrad(std::vector<NamedParameter> parameters, const AdagradOptions& options = {},
          const OptimizerOptions& common = {});
  template <class Module>
  explicit Adagrad(const Module& module, const AdagradOptions& options = {},
                   const OptimizerOptions& common = {})
      : Adagrad(nn::parameters_of(module), options, common) {}

 private:
  void update(const kernels::OptimizerPass& pass, std::span<kernels::OptimizerSlot> slots) const override;
  Tensor initial_state(size_t i, const Shape& shape) const override;

  AdagradOptions options_;
};

}  // namespace qkv::optim
