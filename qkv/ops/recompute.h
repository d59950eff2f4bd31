#pragma once
// Gradient checkpointing: intermediate results are not kept, but recomputed in the backward pass (Chen et al.
// 2016).

#include <functional>
#include <vector>

#include "qkv/ops/tape.h"

namespace qkv {

// A variable with `value`, the result of function() computed while the tape was paused. backward() calls
// `function` on a tape of its own and differentiates that, so that all gradients have the same bits as
// without recomputation. `function` must reproduce the same bits and keep its inputs alive. reads: the
// variables that it reads; they must not change before backward().
Variable recomputed(Tensor value, std::vector<Tape::Input> reads, std::function<Variable()> function);

}  // namespace qkv
