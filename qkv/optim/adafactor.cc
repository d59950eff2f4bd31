#include "qkv/optim/adafactor.h"

#include "qkv/kernels/optimizer.h"
#include "qkv/optim/require.h"

namespace qkv::optim {

void AdafactorOptions::validate() const {
  require_option("adafactor.beta2_decay", beta2_decay, beta2_decay <= 0, "0 or less");
  require_not_negative("adafactor.epsilon1", epsilon1);
  require_not_negative("adafactor.epsilon2", epsilon2);
  require_option("adafactor.clip_threshold", clip_threshold, clip_threshold >= 1, "1 or more");
  require_not_negative("adafactor.weight_decay", weight_decay);
}

Adafactor::Adafactor(std::vector<NamedParameter> parameters, const AdafactorOptions& options,
                     const OptimizerOptions& common)
    : Optimizer("adafactor", {"rows", "columns"}, options.weight_decay, std::move(parameters), common),
      options_(options) {
  options_.validate();
  make_states();
}

// For a matrix, row and column means; for a vector, one row of all elements.
Tensor Adafactor::initial_state(size_t i, const Shape& shape) const {
  if (shape.rank() < 2) return i == 0 ? Tensor::zeros(shape) : Tensor();
  const int64_t matrix = shape[-2] * shape[-1], matrices = matrix == 0 ? 0 : shape.numel() / matrix;
  return Tensor::zeros({matrices * shape[i == 0 ? -2 : -1]});
}

void Adafactor::update(const kernels::OptimizerPass& pass, std::span<kernels::OptimizerSlot> slots) const {
  kernels::adafactor({.beta2_decay = options_.beta2_decay,
                      .epsilon1 = options_.epsilon1,
                      .epsilon2 = options_.epsilon2,
                      .clip_threshold = options_.clip_threshold},
                     pass, slots);
}

}  // namespace qkv::optim
