#pragma once
// Products of two computed matrices, unlike those with weights.

#include <cstdint>

#include "qkv/kernels/kinds.h"

namespace qkv::kernels {

// z[b] (+)= x[b] y[b] for each b of a batch; x [m, k], y [k, n], z [m, n], contiguous. A transposed matrix is
// stored as [k, m] or [n, k]; at most one of the two may be. The order of summation depends on the shapes
// only.
struct BatchedProduct {
  const float* x = nullptr;
  const float* y = nullptr;
  float* z = nullptr;
  int64_t batch = 1, m = 0, k = 0, n = 0;
  bool x_transposed = false, y_transposed = false;
  Accumulate accumulate = Accumulate::no;
};

}  // namespace qkv::kernels
