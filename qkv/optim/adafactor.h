#pragma once
// Adafactor (Shazeer and Stern 2018): second moments of a matrix as a product of its rows' and its columns'
// means, so that the state is a vector for each side. The step is relative to the size of the weights:
// w <- (1 - lr * weight_decay) * w - u * max(epsilon2, rms(w)) * min(lr, 1 / sqrt(t)).

#include "qkv/optim/optimizer.h"

namespace qkv::optim {

struct AdafactorOptions {
  float beta2_decay = -0.8f;       // at step t beta2 is 1 - t^beta2_decay
  float epsilon1 = 1.1920929e-7f;  // the least root of a second moment
  float epsilon2 = 1e-3f;          // the least size of weights that steps are relative to
  float clip_threshold = 1;        // the largest root mean square of u
  float weight_decay = 0;          // decoupled

  // Throws UsageError naming the option, what was expected and what was found.
  void validate() const;
};

class Adafactor : public Optimizer {
 public:
  Adafactor(std::vector<NamedParameter> parameters, const AdafactorOptions& options = {},
            const OptimizerOptions& common = {});
  template <class Module>
  explicit Adafactor(const Module& module, const AdafactorOptions& options = {},
                     const OptimizerOptions& common = {})
      : Adafactor(nn::parameters_of(module), options, common) {}

 private:
  void update(const kernels::OptimizerPass& pass,
              std::span<const kernels::OptimizerSlot> slots) const override;
  Tensor initial_state(size_t i, const Shape& shape) const override;

  AdafactorOptions options_;
};

}  // namespace qkv::optim
