#pragma once

#include "qkv/base/philox.h"
#include "qkv/tensor/tensor.h"

namespace qkv::testing {

// Uniform in [-1, 1), never exactly 0.
inline Tensor random_tensor(const Shape& shape, uint64_t seed) {
  RandomStream random(seed, 0x7e57);
  Tensor tensor = Tensor::empty(shape);
  for (float& x : tensor.values()) {
    do x = 2 * random.uniform() - 1;
    while (x == 0);
  }
  return tensor;
}

}  // namespace qkv::testing
