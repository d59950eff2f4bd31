#pragma once
// A module's parameters as a list: what optimizers, checkpoints and averages work on.

#include <string>
#include <vector>

#include "qkv/nn/parameter.h"

namespace qkv::nn {

// Handles: the numbers belong to the module, and outlive it here.
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

// The first of the parameters whose numbers hold a NaN or an infinity; empty where all are finite.
std::string first_non_finite(const std::vector<NamedParameter>& parameters);

}  // namespace qkv::nn
