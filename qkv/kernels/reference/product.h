#pragma once
// Products of batches of matrices.

#include "qkv/kernels/backend/product.h"

namespace qkv::kernels::reference {

void batched_product(const BatchedProduct& arguments);

}  // namespace qkv::kernels::reference
