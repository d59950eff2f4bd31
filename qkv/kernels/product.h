#pragma once
// Products of matrices that are both computed, unlike those with weights (matmul.h).

#include "qkv/kernels/accumulate.h"
#include "qkv/tensor/tensor.h"

namespace qkv::kernels {

// Which of a product's operands lies in memory as its transpose.
enum class Transposed { none, x, y };

// z (+)= x y over the last two axes, for each index of the others, which all three have alike; f32,
// contiguous.
void batched_product(const Tensor& x, const Tensor& y, Transposed transposed, Tensor& z,
                     Accumulate accumulate);

}  // namespace qkv::kernels
