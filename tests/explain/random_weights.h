#pragma once

#include "qkv/base/philox.h"
#include "qkv/tensor/tensor.h"

namespace qkv::explain {

// Rows that sum to 1, like the softmax's.
inline Tensor random_weights(int64_t heads, int64_t queries, int64_t keys, uint64_t seed) {
  Tensor tensor = Tensor::empty({heads, queries, keys});
  RandomStream random(seed);
  for (int64_t row = 0; row < heads * queries; ++row) {
    float* weights = tensor.data() + row * keys;
    float sum = 0;
    for (int64_t key = 0; key < keys; ++key) sum += weights[key] = 0.01f + random.uniform();
    for (int64_t key = 0; key < keys; ++key) weights[key] /= sum;
  }
  return tensor;
}

}  // namespace qkv::explain
