#pragma once
// Arithmetic of tensors with broadcasting, and sums over axes.

#include "qkv/kernels/backend/broadcast.h"
#include "qkv/tensor/tensor.h"

namespace qkv::kernels {

// z (+)= x op y, f32 or bf16 each (backend/elements.h), with any strides. Axes are aligned at the end; an
// axis of x or y that is missing or has extent 1 is repeated.
void binary(BinaryOp op, const Tensor& x, const Tensor& y, Tensor& z, Accumulate accumulate);

// y (+)= x with its last two axes swapped; f32 or bf16, with any strides.
void transpose(const Tensor& x, Tensor& y, Accumulate accumulate);

// Tables by distance: n rows of 2 l - 1 columns, l >= n, of which column c of row i belongs to the position
// c - (l - 1) after i. z [n, n] = x(i, j) + y(j, i): of position j, seen from i in x, and of i, seen from j
// in y. Any row strides.
void add_distances(const Tensor& x, const Tensor& y, Tensor& z);
// The gradients of both: x(i, j) = y(j, i) = z[i, j]; the others stay.
void add_distances_backward(const Tensor& z, Tensor& x, Tensor& y);

// y (+)= factor * sum of x over the axes that are missing or have extent 1 in y; f32 or bf16, contiguous.
void sum_to(const Tensor& x, float factor, Tensor& y, Accumulate accumulate);

}  // namespace qkv::kernels
