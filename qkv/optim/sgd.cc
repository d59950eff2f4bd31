#include "qkv/optim/sgd.h"

#include "qkv/kernels/optimizer.h"
#include "qkv/optim/require.h"

namespace qkv::optim {

void SgdOptions::validate() const {
  require_share("sgd.momentum", momentum);
  require_share("sgd.dampening", dampening);
  require_not_negative("sgd.weight_decay", weight_decay);
  if (nesterov && (momentum == 0 || dampening != 0)) {
    throw UsageError(concat("sgd.nesterov: expected momentum and no dampening, found momentum = ", momentum,
                            " and dampening = ", dampening));
  }
}

Sgd::Sgd(std::vector<NamedParameter> parameters, const SgdOptions& options, const OptimizerOptions& common)
    : Optimizer("sgd",
                options.momentum == 0 ? std::vector<std::string>{} : std::vector<std::string>{"momentum"},
                options.weight_decay, std::move(parameters), common),
      options_(options) {
  options_.validate();
  make_states();
}

void Sgd::update(const kernels::OptimizerPass& pass, std::span<kernels::OptimizerSlot> slots) const {
  kernels::sgd(
      {.momentum = options_.momentum, .dampening = options_.dampening, .nesterov = options_.nesterov}, pass,
      slots);
}

}  // namespace qkv::optim
