#pragma once

#include "qkv/kernels/accumulate.h"
#include "qkv/tensor/tensor.h"

namespace qkv::kernels {

// Where a backward function puts its share of a gradient: written by the first use of the value, added to by
// the rest. An undefined tensor: the gradient is not wanted.
struct GradientSlot {
  Tensor tensor;
  Accumulate accumulate = Accumulate::no;
};

}  // namespace qkv::kernels
