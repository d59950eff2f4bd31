#pragma once
// The start of residual branches: x + f(x).

#include "qkv/nn/named_parameters.h"

namespace qkv::nn {

// The factor of models that begin training: 0.1 and 0.3 are about as good (docs/results.md).
inline constexpr float kResidualStart = 0.1f;

// Multiplies the matrices that end a residual branch, those of attention's output projection ("out_proj") and
// of the second feed-forward layer ("fc2"), by `factor`. For a model that initialise() has given values.
//
// A post-norm layer is LN(x + f(x)). If f(x) begins as large as x, the output of a deep stack depends on all
// branches, and the first steps, which change each of them, change it too much: small models with 6 layers
// and a high learning rate hardly learn, or diverge (Liu et al. 2020, "Understanding the Difficulty of
// Training Transformers", section 4). Zhang et al. 2019 ("Fixup", section 3) begin with a factor of 0,
// Wang et al. 2022 ("DeepNet", section 4) with one that depends on the number of layers.
void scale_residual_branches(const std::vector<NamedParameter>& parameters, float factor = kResidualStart);

template <class Module>
void scale_residual_branches(const Module& module, float factor = kResidualStart) {
  scale_residual_branches(parameters_of(module), factor);
}

}  // namespace qkv::nn
