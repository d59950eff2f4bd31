#pragma once
// Cross-entropy of a matrix of logits, and the gradients of softmax and log_softmax.

#include "qkv/kernels/kinds.h"
#include "qkv/tensor/tensor.h"

namespace qkv::kernels {

// The targets of the loss; see backend/label_loss.h for the equation.
struct LabelTargets {
  Tensor labels;         // i32 [rows], each in [0, cols) or `ignored`
  Tensor class_weights;  // f32 [cols]; undefined: all 1
  int32_t ignored = -100;
  float smoothing = 0;
};

// Outputs: losses, log_sum_exp [rows]; input: logits [rows, cols]. f32, contiguous.
void label_loss(const Tensor& logits, const LabelTargets& targets, Tensor& losses, Tensor& log_sum_exp);
// d_logits (+)= d_losses * gradient of each row's loss.
void label_loss_backward(const Tensor& logits, const LabelTargets& targets, const Tensor& log_sum_exp,
                         const Tensor& d_losses, Tensor& d_logits, Accumulate accumulate);

// dx (+)= the gradient of y = softmax(x), or if `log`, of y = log_softmax(x), over the innermost axis.
void softmax_backward(bool log, const Tensor& y, const Tensor& dy, Tensor& dx, Accumulate accumulate);

}  // namespace qkv::kernels
