#pragma once
// RMSprop (Hinton 2012): g <- g + weight_decay * w, v <- alpha * v + (1 - alpha) * g^2,
// w <- w - lr * g / (sqrt(v) + epsilon).

#include "qkv/optim/optimizer.h"

namespace qkv::optim {

struct RmspropOptions {
  float alpha = 0.99f;
  float epsilon = 1e-8f;
  float momentum = 0;      // of the updates; 0: off
  bool centered = false;   // v is the variance: the squared mean gradient is subtracted (Graves 2013)
  float weight_decay = 0;  // added to the gradient

  // Throws UsageError naming the option, what was expected and what was found.
  void validate() const;
};

class Rmsprop : public Optimizer {
 public:
  Rmsprop(std::vector<NamedParameter> parameters, const RmspropOptions& options = {},
          const OptimizerOptions& common = {});
  template <class Module>
  explicit Rmsprop(const Module& module, const RmspropOptions& options = {},
                   const OptimizerOptions& common = {})
      : Rmsprop(nn::parameters_of(module), options, common) {}

 private:
  void update(const kernels::OptimizerPass& pass, std::span<kernels::OptimizerSlot> slots) const override;
  Tensor initial_state(size_t i, const Shape& shape) const override;

  RmspropOptions options_;
};

}  // namespace qkv::optim
