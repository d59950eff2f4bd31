#pragma once
// The second half of a feed-forward layer as one operation.

#include <functional>
#include <vector>

#include "qkv/ops/linear.h"

namespace qkv {

// linear(input(), weights), for an input that is cheaper to compute again than to keep, such as an
// activation. Keeps what `input` keeps alive in place of its result, and calls it again in the backward pass;
// it must reproduce the same bits. reads: the variables that it reads; they must not change before
// backward(). Throws the errors of linear(), and UsageError without a function.
Variable linear_of(std::function<Variable()> input, const std::vector<Variable>& reads,
                   const LinearWeights& weights, WeightLayout layout = WeightLayout::in_place);

}  // namespace qkv
