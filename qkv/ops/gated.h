#pragma once

#include "qkv/ops/activation.h"

namespace qkv {

// dropout(activation(gate) * x), the inside of a gated feed-forward (Shazeer 2020); both [tokens, features],
// and may be columns of one matrix. Throws ShapeError.
Variable gated(const Variable& gate, const Variable& x, Activation activation, const Dropout& dropout = {});

}  // namespace qkv
