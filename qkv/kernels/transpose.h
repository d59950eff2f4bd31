#pragma once
// A matrix with its rows as columns.

#include <cstdint>

namespace qkv::kernels {

// y[j, i] = x[i, j]. x [rows, cols], its rows x_stride elements apart; y [cols, rows], contiguous. What is
// written goes past the caches where it can, as for weights that are turned when a model opens. For elements
// of 4 and of 2 bytes.
void transpose(const uint32_t* x, int64_t x_stride, int64_t rows, int64_t cols, uint32_t* y);
void transpose(const uint16_t* x, int64_t x_stride, int64_t rows, int64_t cols, uint16_t* y);

}  // namespace qkv::kernels
