#include "qkv/nn/named_parameters.h"

#include "qkv/kernels/pointwise.h"

namespace qkv::nn {

std::string first_non_finite(const std::vector<NamedParameter>& parameters) {
  for (const auto& [name, parameter] : parameters) {
    const Tensor& value = parameter.variable.value();
    if (!kernels::all_finite(value)) return name;
  }
  return {};
}

}  // namespace qkv::nn
