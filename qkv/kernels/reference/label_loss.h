#pragma once
// Cross-entropy of labels with class weights, and the backward pass of a softmax.

#include "qkv/kernels/backend/label_loss.h"

namespace qkv::kernels::reference {

void label_loss(const LabelLossForward& arguments);
void label_loss_backward(const LabelLossBackward& arguments);
void softmax_backward(const SoftmaxBackward& arguments);

}  // namespace qkv::kernels::reference
