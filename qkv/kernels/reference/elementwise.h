#pragma once
// Copies, sums and transposes: the kernels of pointwise.h and transpose.h without an activation.

#include <cstddef>
#include <cstdint>

#include "qkv/kernels/backend/elements.h"
#include "qkv/kernels/kinds.h"

namespace qkv::kernels::reference {

void copy(Elements x, MutableElements y, int64_t count, Accumulate accumulate);
void scale(Elements x, float factor, MutableElements y, int64_t count, Accumulate accumulate);
void scale_by(Elements x, const float* factor, MutableElements y, int64_t count, Accumulate accumulate);
void total(const float* x, int64_t count, float factor, double* total, float* scaled);
void add(Elements x, Elements y, MutableElements z, int64_t count);
void column_sums(Elements dy, int64_t rows, int64_t cols, int64_t row_stride, float* sums,
                 Accumulate accumulate);
void transpose(const void* x, int64_t x_stride, int64_t rows, int64_t cols, size_t element, void* y);

}  // namespace qkv::kernels::reference
