#pragma once
// Copies of operands in the layouts of products: transposed, and rounded to bf16 (to nearest, ties to even;
// NaN stays NaN, and values beyond the largest bf16 become infinite). On the calling thread.

#include <cstdint>

#include "qkv/tensor/dtype.h"

namespace qkv::kernels {

// to[row * stride + col] = from[col][row] for row < rows and col < cols. Copies bits.
void transpose_rows(const float* const* from, int64_t cols, int64_t rows, float* to, int64_t stride);

// to[row * stride + col] = from[row][col], rounded to bf16. Fills the columns [cols, stride) with zeros.
void round_rows(const float* const* from, int64_t rows, int64_t cols, BFloat16* to, int64_t stride);

// Two numbers of a column side by side, as bf16 products read them: to[2 * (row / 2 * stride + col) + row %
// 2] = from[row][first + col], rounded to bf16. An odd number of rows is followed by one of zeros.
void round_pairs(const float* const* from, int64_t rows, int64_t first, int64_t cols, BFloat16* to,
                 int64_t stride);

// to[i] = the value of from[i] rounded to bf16. to may be from.
void round_values(const float* from, int64_t count, float* to);

}  // namespace qkv::kernels
