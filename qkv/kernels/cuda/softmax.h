#pragma once
// The normaliser of a row's softmax.

#include "qkv/kernels/cuda/grid.h"

namespace qkv::kernels::cuda {

QKV_DEVICE inline float biased(const float* x, const float* bias, int64_t c) {
  return bias == nullptr ? x[c] : x[c] + bias[c];
}

// log(sum_c exp(x[c] + bias[c])); NaN if a number is.
QKV_DEVICE inline float log_sum_exp(const Thread& thread, const float* x, const float* bias, int64_t cols) {
  float largest = -INFINITY;
  for (int64_t c = thread.index; c < cols; c += thread.count) {
    const float z = biased(x, bias, c);
    if (z > largest) largest = z;
  }
  largest = thread.maximum(largest);
  double sum = 0;
  for (int64_t c = thread.index; c < cols; c += thread.count) sum += ::expf(biased(x, bias, c) - largest);
  return largest + static_cast<float>(::log(thread.sum(sum)));
}

}  // namespace qkv::kernels::cuda
