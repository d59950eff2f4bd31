#pragma once
// Softmax over a vocabulary, and label-smoothed cross-entropy (Szegedy et al. 2016, section 7).

#include <cstdint>

namespace qkv::kernels {

// By row: loss = -(1 - smoothing) log p[label] - smoothing / cols * sum_c log p[c], p = softmax(logits +
// bias); nll = -log p[label]. The logits are overwritten by their gradient times grad_scale: grad_scale * (p
// - target).
struct CrossEntropy {
  float* logits = nullptr;          // [rows, cols], overwritten by the gradient
  const float* bias = nullptr;      // [cols], or null
  const int32_t* labels = nullptr;  // [rows], each in [0, cols)
  int64_t rows = 0, cols = 0;
  float smoothing = 0;
  float grad_scale = 1;
  float* loss = nullptr;  // [rows]
  float* nll = nullptr;   // [rows]
};

}  // namespace qkv::kernels
