#pragma once
// Time for memory: what a part of a model computes on the way is not kept, but computed again when its
// gradient has come (Chen et al. 2016).

#include <functional>

#include "qkv/ops/tape.h"

namespace qkv {

// A variable with the numbers `value`, which are function()'s, found while the tape was paused. backward()
// calls `function` with a tape of its own and passes the gradient on through that, so that all gradients have
// the bits that recording the first run would have given them. `function` has to compute the same bits again,
// from variables that it keeps alive.
Variable recomputed(Tensor value, std::function<Variable()> function);

}  // namespace qkv
