#pragma once
// Dropout's factors, from the random numbers of all backends.

#include "qkv/kernels/cuda/grid.h"
#include "qkv/kernels/dropout.h"

namespace qkv::kernels::cuda {

// 0 if the element is dropped.
QKV_DEVICE inline float dropout_factor(const Dropout& dropout, int64_t row, int64_t column) {
  if (!dropout.active()) return 1;
  return dropout.keeps(static_cast<uint32_t>(row), static_cast<uint32_t>(column)) ? dropout.scale() : 0;
}

}  // namespace qkv::kernels::cuda
