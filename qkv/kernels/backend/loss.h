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

// A token and its log-probability.
struct ScoredToken {
  float log_probability = 0;
  int32_t id = 0;
};

// best[r, 0 .. count] = the tokens of row r with the largest log_softmax(logits), in descending order, ties
// by id. A row with a NaN or +infinity among its logits has NaN log-probabilities.
struct BestTokens {
  const float* logits = nullptr;  // [rows, cols]
  int64_t rows = 0, cols = 0;
  int64_t count = 1;            // at most cols
  ScoredToken* best = nullptr;  // [rows, count]
};

}  // namespace qkv::kernels
