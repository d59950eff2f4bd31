#pragma once
// Copies, sums and transposes: the kernels of pointwise.h and transpose.h without an activation.

#include <cstdint>

#include "qkv/kernels/accumulate.h"

namespace qkv::kernels::reference {

void copy(const float* x, float* y, int64_t count, Accumulate accumulate);
void scale(const float* x, float factor, float* y, int64_t count, Accumulate accumulate);
void add(const float* x, const float* y, float* z, int64_t count);
void column_sums(const float* dy, int64_t rows, int64_t cols, int64_t row_stride, float* sums,
                 Accumulate accumulate);
void transpose(const uint32_t* x, int64_t x_stride, int64_t rows, int64_t cols, uint32_t* y);
void transpose(const uint16_t* x, int64_t x_stride, int64_t rows, int64_t cols, uint16_t* y);

}  // namespace qkv::kernels::reference
