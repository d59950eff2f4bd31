#include "qkv/optim/rmsprop.h"

#include "qkv/kernels/optimizer.h"
#include "qkv/optim/require.h"

namespace qkv::optim {

void RmspropOptions::validate() const {
  require_share("rmsprop.alpha", alpha);
  require_not_negative("rmsprop.epsilon", epsilon);
  require_share("rmsprop.momentum", momentum);
  require_not_negative("rmsprop.weight_decay", weight_decay);
}

Rmsprop::Rmsprop(std::vector<NamedParameter> parameters, const RmspropOptions& options,
                 const OptimizerOptions& common)
    : Optimizer("rmsprop", {"square", "mean", "momentum"}, options.weight_decay, std::move(parameters),
                common),
      options_(options) {
  options_.validate();
  make_states();
}

Tensor Rmsprop::initial_state(size_t i, const Shape& shape) const {
  const bool used = i == 0 || (i == 1 && options_.centered) || (i == 2 && options_.momentum > 0);
  return used ? Tensor::zeros(shape) : Tensor();
}

void Rmsprop::update(const kernels::OptimizerPass& pass, std::span<kernels::OptimizerSlot> slots) const {
  kernels::rmsprop({.alpha = options_.alpha,
                    .epsilon = options_.epsilon,
                    .momentum = options_.momentum,
                    .centered = options_.centered},
                   pass, slots);
}

}  // namespace qkv::optim
