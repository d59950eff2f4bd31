#pragma once
// Adafactor (Shazeer and Stern 2018): the second moments of a matrix are factored into row and column means,
// so that the state is two vectors. Steps are relative to the scale of the weights:
// w <- (1 - lr * weight_decay) * w - u * max(epsilon2, rms(w)) * min(lr, 1 / sqrt(t)).

#include "qkv/optim/optimizer.h"

namespace qkv::optim {

struct AdafactorOptions {
  float beta2_decay = -0.8f;       // beta2 at step t is 1 - t^beta2_decay
  float epsilon1 = 1.1920929e-7f;  // minimum root of a second moment
  float epsilon2 = 1e-3f;          // minimum of rms(w) in the relative step
  float clip_threshold = 1;        // maximum root mean square of u
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
  void update(const kernels::OptimizerPass& pass, std::span<kernels::OptimizerSlot> slots) const override;
  Tensor initial_state(size_t i, const Shape& shape) const override;

  AdafactorOptions options_;
};

}  // namespace qkv::optim
