#pragma once
// Dropout (Srivastava et al. 2014): y = x / (1 - rate) if the element is kept, else 0.

#include <cstdint>

#include "qkv/kernels/dropout.h"

namespace qkv::kernels::reference {

// The factor of an element: 0 if dropped. Uses the random numbers common to all backends.
inline double dropout_factor(const Dropout& dropout, int64_t row, int64_t column) {
  if (!dropout.active()) return 1;
  const bool kept = dropout.keeps(static_cast<uint32_t>(row), static_cast<uint32_t>(column));
  return kept ? double{dropout.scale()} : 0.0;
}

}  // namespace qkv::kernels::reference
