#pragma once
// A module's parameters as a list, for optimizers, checkpoints and averaging.

#include <string>
#include <vector>

#include "qkv/nn/parameter.h"

namespace qkv::nn {

// A handle: shares the module's values and keeps them alive.
struct NamedParameter {
  std::string name;
  Parameter parameter;
};

// In the order of the module's visit().
template <class Module>
std::vector<NamedParameter> parameters_of(const Module& module) {
  std::vector<NamedParameter> result;
  module.visit([&](const std::string& name, const Parameter& parameter) {
    result.push_back({name, parameter});
  });
  return result;
}

// The name of the first parameter with a NaN or infinity; empty if all are finite.
std::string first_non_finite(const std::vector<NamedParameter>& parameters);

}  // namespace qkv::nn
