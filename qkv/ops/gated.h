#pragma once

#include "qkv/ops/activation.h"

namespace qkv {

// dropout(activation(gate) * x), the inner part of a gated feed-forward (Shazeer 2020). Both [tokens,
// features], possibly columns of one matrix. Throws ShapeError.
Variable gated(const Variable& gate, const Variable& x, Activation activation, const Dropout& dropout = {});

}  // namespace qkv
