#pragma once
// Softmax over a vocabulary, and label-smoothed cross-entropy.

#include <cstdint>
#include <vector>

#include "qkv/kernels/backend/loss.h"
#include "qkv/tensor/tensor.h"

namespace qkv::kernels {

// CrossEntropy on tensors of one device: overwrites the logits by their gradient.
struct CrossEntropyTensors {
  Tensor logits = {};  // [rows, cols]
  Tensor bias = {};    // [cols]; undefined: none
  Tensor labels = {};  // i32 [rows], each in [0, cols)
  float smoothing = 0;
  float grad_scale = 1;
  Tensor loss = {}, nll = {};  // [rows]
};

void cross_entropy(CrossEntropyTensors arguments);

// y = log_softmax(logits + bias) by row; [rows, cols], contiguous f32. bias [cols] may be undefined, y may be
// logits.
void log_softmax(const Tensor& logits, const Tensor& bias, Tensor& y);

// The `count` most likely tokens of each row of logits [rows, cols], 1 <= count <= cols, on the host: [rows *
// count], best first, ties by id. A row with a NaN or +infinity among its logits has NaN log-probabilities.
std::vector<ScoredToken> best_tokens(const Tensor& logits, int64_t count);

// y = softmax(x) by row; y may be x.
void softmax(const Tensor& x, Tensor& y);

}  // namespace qkv::kernels
