#pragma once
// Elementwise functions, and column sums. On one device, f32 or bf16 (backend/elements.h), where sums and
// factors are f32; contiguous unless stated otherwise.

#include <span>
#include <vector>

#include "qkv/kernels/dropout.h"
#include "qkv/kernels/gradient_slot.h"
#include "qkv/kernels/kinds.h"

namespace qkv::kernels {

// y (+)= x, equal shapes, any row strides, f32 or bf16 each.
void copy(const Tensor& x, Tensor& y, Accumulate accumulate);
// y (+)= factor * x, any row strides.
void scale(const Tensor& x, float factor, Tensor& y, Accumulate accumulate);
// Likewise with a factor [1] on the device.
void scale(const Tensor& x, const Tensor& factor, Tensor& y, Accumulate accumulate);
// z = x + y
void add(const Tensor& x, const Tensor& y, Tensor& z);

// y = dropout(activation(x)); [rows, cols]. x may be y.
void activate(Activation activation, const Tensor& x, const Dropout& dropout, Tensor& y);
// dx (+)= activation'(x) * dropout(dy). dx may be dy if it is written.
void activate_backward(Activation activation, const Tensor& x, const Tensor& dy, const Dropout& dropout,
                       GradientSlot dx);
// dx = factor * dy where y > 0, else 0: the gradient of y = dropout(max(x, 0)), computed without x, because
// dropped elements are 0 too; factor = dropout.scale(). dx may be dy.
void relu_backward(const Tensor& y, const Tensor& dy, float factor, Tensor& dx);

// sums[c] (+)= sum over rows of x[row, c], any row stride.
void column_sums(const Tensor& x, GradientSlot sums);

// The transpose of x [rows, cols], with elements of 2 or 4 bytes and any row stride.
Tensor transposed(const Tensor& x);

// sums[i], an i64 element whose bits are a double's, = the sum of x, in order; scaled [1] = factor * sum,
// unless undefined.
void total(const Tensor& x, float factor, Tensor& sums, int64_t i, Tensor scaled = {});
// The doubles with these bits, of i64 tensors [n] on one device, one after the other; undefined ones have
// none. Waits for the device once.
std::vector<double> doubles(std::span<const Tensor> bits);
// The sum of squares of each tensor in double precision, in an order that depends on its number of elements
// only: i64 [tensors], the bits of doubles. Undefined without tensors.
Tensor sums_of_squares(std::span<const Tensor> tensors);
// Whether all elements are finite.
bool all_finite(const Tensor& x);

}  // namespace qkv::kernels
