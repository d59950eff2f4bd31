#pragma once

#include "qkv/kernels/kinds.h"
#include "qkv/ops/dropout.h"
#include "qkv/ops/tape.h"

namespace qkv {

using kernels::Activation;

// dropout(activation(x)); x [tokens, features]. Throws ShapeError.
Variable activate(const Variable& x, Activation activation, const Dropout& dropout = {});

}  // namespace qkv
