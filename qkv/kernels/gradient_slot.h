#pragma once

#include <cstdint>

#include "qkv/kernels/kinds.h"
#include "qkv/tensor/tensor.h"

namespace qkv::kernels {

// The destination of a backward function's contribution: written by the first use of the value, added to by
// the others. An undefined tensor: the gradient is not wanted.
struct GradientSlot {
  Tensor tensor;
  Accumulate accumulate = Accumulate::no;
};

// Passes over its memory.
inline int64_t passes(const GradientSlot& slot) {
  return slot.tensor.defined() ? memory_passes(slot.accumulate) : 0;
}

}  // namespace qkv::kernels
