#pragma once
// Arithmetic of tensors whose axes of extent 1 repeat, and sums over axes.

#include "qkv/kernels/backend/broadcast.h"
#include "qkv/tensor/tensor.h"

namespace qkv::kernels {

// z (+)= x op y, f32 of any strides. Axes are counted from the back; where x or y has extent 1 or no axis,
// its elements repeat.
void binary(BinaryOp op, const Tensor& x, const Tensor& y, Tensor& z, Accumulate accumulate);

// y (+)= x with its last two axes exchanged; f32 of any strides.
void transpose(const Tensor& x, Tensor& y, Accumulate accumulate);

// y (+)= factor * the sum of x over the axes along which y has extent 1 or no axis; f32, contiguous.
void sum_to(const Tensor& x, float factor, Tensor& y, Accumulate accumulate);

}  // namespace qkv::kernels
