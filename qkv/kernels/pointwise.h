#pragma once
// Functions of single elements. Arrays are contiguous where only a count is given.

#include <cstdint>

#include "qkv/kernels/accumulate.h"
#include "qkv/kernels/dropout.h"

namespace qkv::kernels {

enum class Activation { identity, relu, gelu_exact, gelu_tanh, silu, tanh };

// y[i] = x[i] + y[i] * (accumulate)
void copy(const float* x, float* y, int64_t count, Accumulate accumulate);
// y[i] (+)= factor * x[i]
void scale(const float* x, float factor, float* y, int64_t count, Accumulate accumulate);
// z[i] = x[i] + y[i]
void add(const float* x, const float* y, float* z, int64_t count);

// y = dropout(activation(x)), element by element; x and y [rows, cols] contiguous. x may be y.
void activate(Activation activation, const float* x, float* y, int64_t rows, int64_t cols,
              const Dropout& dropout);
// dx (+)= activation'(x) * dropout(dy). dx may be dy with Accumulate::no.
void activate_backward(Activation activation, const float* x, const float* dy, float* dx, int64_t rows,
                       int64_t cols, const Dropout& dropout, Accumulate accumulate);

// dx = factor * dy where y > 0, else 0: the gradient of y = dropout(max(x, 0)), found without x, as what is
// dropped is 0 too; factor = dropout.scale(). dx may be dy.
void relu_backward(const float* y, const float* dy, float factor, float* dx, int64_t count);

// bias_gradient[c] (+)= sum over rows of dy[row, c], in an order that depends on the number of rows only.
void column_sums(const float* dy, int64_t rows, int64_t cols, int64_t row_stride, float* sums,
                 Accumulate accumulate);

}  // namespace qkv::kernels
