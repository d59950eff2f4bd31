#pragma once
// Functions of single elements. Arrays are contiguous where only a count is given.

#include <cstdint>

#include "qkv/kernels/accumulate.h"
#include "qkv/kernels/dropout.h"

namespace qkv::kernels {

enum class Activation { identity, relu, gelu_exact, gelu_tanh, silu };

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

// bias_gradient[c] (+)= sum over rows of dy[row, c], in an order that depends on the number of rows only.
void sum_rows(const float* dy, int64_t rows, int64_t cols, int64_t row_stride, float* sums,
              Accumulate accumulate);

}  // namespace qkv::kernels
