#pragma once
// Dropout (Srivastava et al. 2014): y = x / (1 - rate) where the element is kept, else 0.

#include <cstdint>

#include "qkv/kernels/dropout.h"

namespace qkv::kernels::reference {

// What an element is multiplied by: 0 where it is dropped. The random numbers are those of every backend.
inline double dropout_factor(const Dropout& dropout, int64_t row, int64_t column) {
  if (!dropout.active()) return 1;
  const bool kept = dropout.keeps(static_cast<uint32_t>(row), static_cast<uint32_t>(column));
  return kept ? double{dropout.scale()} : 0.0;
}

}  // namespace qkv::kernels::reference
