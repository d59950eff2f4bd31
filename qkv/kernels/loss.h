#pragma once
// Softmax over a vocabulary, and label-smoothed cross-entropy.

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

// y = softmax(x) by row; y may be x.
void softmax(const Tensor& x, Tensor& y);

}  // namespace qkv::kernels
