#pragma once
// The first half of a feed-forward layer as one operation.

#include "qkv/kernels/dropout.h"
#include "qkv/kernels/kinds.h"
#include "qkv/ops/linear.h"

namespace qkv {

// dropout(activation(linear(x, weights))), x [tokens, k] -> [tokens, n]. With relu, only the result is kept
// for the backward pass. Throws the errors of linear().
Variable linear_activate(const Variable& x, const LinearWeights& weights, kernels::Activation activation,
                         const kernels::Dropout& dropout = {}, WeightLayout layout = WeightLayout::in_place);

}  // namespace qkv
