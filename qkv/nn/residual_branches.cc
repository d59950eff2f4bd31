#include "qkv/nn/residual_branches.h"

namespace qkv::nn {

void scale_residual_branches(const std::vector<NamedParameter>& parameters, float factor) {
  const MemoryScope memory(MemoryUse::weights);
  for (const auto& [name, parameter] : parameters) {
    if (!name.ends_with("_attn.out_proj.weight") && !name.ends_with("fc2.weight")) continue;
    Tensor value = parameter.variable.value().clone();
    for (float& x : value.values()) x *= factor;
    parameter.set_value({value});
  }
}

}  // namespace qkv::nn
