#pragma once
// Products that oneDNN computes: with a right-hand side in slabs (PackLayout::slabs, bf16_slabs), and weight
// gradients, on processors with AVX-512 (onednn::runs_on_slabs). Declared as in matmul.h.

#include "qkv/kernels/cpu/matmul.h"
#include "qkv/kernels/cpu/products/f32_matrix.h"
#include "qkv/kernels/cpu/products/packed_matrix.h"

namespace qkv::kernels {

void multiply_slabs(const F32Matrix& a, const cpu::PackedMatrix::Impl& b, const float* bias,
                    const MutableF32Matrix& c, Accumulate accumulate);

// c (+)= a^T b, with at least one row.
void multiply_transposed_with_slabs(const F32Matrix& a, const F32Matrix& b, const MutableF32Matrix& c,
                                    Accumulate accumulate, DType operands);

}  // namespace qkv::kernels
