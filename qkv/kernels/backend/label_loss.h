#pragma once
// Cross-entropy of a matrix of logits by row, and the gradients of softmax and log_softmax.

#include <cstdint>

#include "qkv/kernels/kinds.h"

namespace qkv::kernels {

// With p = softmax(logits) of a row, label l, class weights w (default 1) and smoothing e:
//   loss = -(1 - e) w[l] log p[l] - e / cols * sum_c w[c] log p[c]
// A row with the label `ignored` has loss and gradient 0. (PyTorch's CrossEntropyLoss, reduction "none".)
struct LabelLoss {
  const float* logits = nullptr;         // [rows, cols]
  const int32_t* labels = nullptr;       // [rows], each in [0, cols) or `ignored`
  const float* class_weights = nullptr;  // [cols], or null
  int64_t rows = 0, cols = 0;
  int32_t ignored = -100;
  float smoothing = 0;
};

struct LabelLossForward {
  LabelLoss loss;
  float* losses = nullptr;       // [rows]
  float* log_sum_exp = nullptr;  // [rows]: log(sum_c exp(logits[c]))
};

// d_logits[r, c] (+)= d_losses[r] * d loss[r] / d logits[r, c].
struct LabelLossBackward {
  LabelLoss loss;
  const float* log_sum_exp = nullptr;  // [rows], from the forward pass
  const float* d_losses = nullptr;     // [rows]
  float* d_logits = nullptr;           // [rows, cols]
  Accumulate accumulate = Accumulate::no;
};

// y = softmax(x) by row: dx[r, c] (+)= y[c] (dy[c] - sum_j dy[j] y[j]).
// y = log_softmax(x):    dx[r, c] (+)= dy[c] - exp(y[c]) sum_j dy[j].
struct SoftmaxBackward {
  bool log = false;
  const float* y = nullptr;   // [rows, cols]
  const float* dy = nullptr;  // [rows, cols]
  int64_t rows = 0, cols = 0;
  float* dx = nullptr;  // [rows, cols]
  Accumulate accumulate = Accumulate::no;
};

}  // namespace qkv::kernels
