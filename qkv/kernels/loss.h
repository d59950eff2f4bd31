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

void cross_entropy(const CrossEntropy& arguments);

// log_probabilities[r, c] = logits[r, c] + bias[c] - log sum exp of the row; in place is allowed, bias may be
// null.
void log_softmax(const float* logits, const float* bias, float* log_probabilities, int64_t rows,
                 int64_t cols);

// y = softmax(x) by row, in place allowed.
void softmax(const float* x, float* y, int64_t rows, int64_t cols);

}  // namespace qkv::kernels
