#pragma once
// Products of two computed matrices, unlike those with weights (matmul.h).

#include "qkv/kernels/kinds.h"
#include "qkv/tensor/tensor.h"

namespace qkv::kernels {

// Which operand is stored transposed.
enum class Transposed { none, x, y };

// z (+)= x y over the last two axes, for each index of the leading axes, which must be equal; f32,
// contiguous.
void batched_product(const Tensor& x, const Tensor& y, Transposed transposed, Tensor& z,
                     Accumulate accumulate);

}  // namespace qkv::kernels
