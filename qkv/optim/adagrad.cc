#include "qkv/optim/adagrad.h"

#include "qkv/kernels/optimizer.h"
#include "qkv/optim/require.h"

namespace qkv::optim {

void AdagradOptions::validate() const {
  require_not_negative("adagrad.lr_decay", lr_decay);
  require_not_negative("adagrad.initial_accumulator", initial_accumulator);
  require_not_negative("adagrad.epsilon", epsilon);
  require_not_negative("adagrad.weight_decay", weight_decay);
}

Adagrad::Adagrad(std::vector<NamedParameter> parameters, const AdagradOptions& options,
                 const OptimizerOptions& common)
    : Optimizer("adagrad", {"sum"}, options.weight_decay, std::move(parameters), common), options_(options) {
  options_.validate();
  make_states();
}

Tensor Adagrad::initial_state(size_t /*i*/, const Shape& shape) const {
  return Tensor::full(shape, options_.initial_accumulator);
}

void Adagrad::update(const kernels::OptimizerPass& pass, std::span<kernels::OptimizerSlot> slots) const {
  kernels::adagrad({.lr_decay = options_.lr_decay, .epsilon = options_.epsilon}, pass, slots);
}

}  // namespace qkv::optim
