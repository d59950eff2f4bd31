#include "qkv/optim/adam.h"

#include "qkv/kernels/optimizer.h"
#include "qkv/optim/require.h"

namespace qkv::optim {
namespace {

std::vector<std::string> states_of(const AdamOptions& options) {
  std::vector<std::string> names{"first", "second"};
  if (options.amsgrad) names.emplace_back("largest");
  return names;
}

}  // namespace

void AdamOptions::validate() const {
  require_share("adam.beta1", beta1);
  require_share("adam.beta2", beta2);
  require_option("adam.epsilon", epsilon, epsilon > 0, "more than 0");
  require_not_negative("adam.weight_decay", weight_decay);
}

Adam::Adam(std::vector<NamedParameter> parameters, const AdamOptions& options, const OptimizerOptions& common,
           bool decoupled)
    : Optimizer("adam", states_of(options), options.weight_decay, std::move(parameters), common),
      options_(options),
      decoupled_(decoupled) {
  options_.validate();
  make_states();
}

void Adam::update(const kernels::OptimizerPass& pass, std::span<kernels::OptimizerSlot> slots) const {
  kernels::adam({.beta1 = options_.beta1,
                 .beta2 = options_.beta2,
                 .epsilon = options_.epsilon,
                 .decoupled = decoupled_,
                 .amsgrad = options_.amsgrad},
                pass, slots);
}

}  // namespace qkv::optim
