#pragma once
// Products that our own kernel computes (strip_product.h), on processors on which oneDNN has none for packed
// weights: those without AVX-512. Declared as in matmul.h. Blocks of kStripDepth of the inner dimension are
// summed each by itself, and added in order.

#include "qkv/kernels/cpu/matmul.h"
#include "qkv/kernels/cpu/products/f32_matrix.h"
#include "qkv/kernels/cpu/products/packed_matrix.h"

namespace qkv::kernels {

// A strip of this depth takes half of an L1 cache of 32 KiB.
inline constexpr int64_t kStripDepth = 256;

void multiply_strips(const F32Matrix& a, const cpu::PackedMatrix::Impl& b, const float* bias,
                     const MutableF32Matrix& c, Accumulate accumulate);

// c (+)= a^T b, with at least one row.
void multiply_transposed_in_strips(const F32Matrix& a, const F32Matrix& b, const MutableF32Matrix& c,
                                   Accumulate accumulate, DType operands);

}  // namespace qkv::kernels
