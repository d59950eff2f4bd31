#pragma once
// The inner part of a gated feed-forward (Shazeer 2020): the product of a linear map and an activated gate.

#include "qkv/kernels/backend/gated.h"
#include "qkv/kernels/gradient_slot.h"

namespace qkv::kernels {

struct GatedTensors {
  Activation activation = Activation::silu;
  Tensor gate = {}, x = {};  // [rows, cols], which may be columns of a wider matrix
  Dropout dropout = {};
};

// y = dropout(activation(gate) * x); y [rows, cols], contiguous.
void gated(const GatedTensors& arguments, Tensor& y);

// d_gate (+)= activation'(gate) * x * dropout(dy), d_x (+)= activation(gate) * dropout(dy); dy contiguous.
void gated_backward(const GatedTensors& arguments, const Tensor& dy, GradientSlot d_gate, GradientSlot d_x);

}  // namespace qkv::kernels
