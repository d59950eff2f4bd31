#pragma once
// CPU kernels; documented in qkv/kernels/backend.h.

#include <cstdint>

#include "qkv/kernels/accumulate.h"
#include "qkv/kernels/activation.h"
#include "qkv/kernels/dropout.h"

namespace qkv::kernels::cpu {

void copy(const float* x, float* y, int64_t count, Accumulate accumulate);
void scale(const float* x, float factor, float* y, int64_t count, Accumulate accumulate);
void add(const float* x, const float* y, float* z, int64_t count);
void activate(Activation activation, const float* x, float* y, int64_t rows, int64_t cols,
              const Dropout& dropout);
void activate_backward(Activation activation, const float* x, const float* dy, float* dx, int64_t rows,
                       int64_t cols, const Dropout& dropout, Accumulate accumulate);
void relu_backward(const float* y, const float* dy, float factor, float* dx, int64_t count);
void column_sums(const float* dy, int64_t rows, int64_t cols, int64_t row_stride, float* sums,
                 Accumulate accumulate);

}  // namespace qkv::kernels::cpu
