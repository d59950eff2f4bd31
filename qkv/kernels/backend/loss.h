#pragma once
// Softmax over a vocabulary, and the label-smoothed cross-entropy on it (Szegedy et al. 2016, section 7).

#include <cstdint>

namespace qkv::kernels {

// By row: loss = -(1 - smoothing) log p[label] - smoothing / cols * sum_c log p[c], p = softmax(logits +
// bias). nll = -log p[label]. In place of the logits stands afterwards their gradient times grad_scale:
// grad_scale * (p - target).
struct CrossEntropy {
  float* logits = nullptr;          // [rows, cols], replaced by the gradient
  const float* bias = nullptr;      // [cols], or null
  const int32_t* labels = nullptr;  // [rows], each in [0, cols)
  int64_t rows = 0, cols = 0;
  float smoothing = 0;
  float grad_scale = 1;
  float* loss = nullptr;  // [rows]
  float* nll = nullptr;   // [rows]
};

}  // namespace qkv::kernels
