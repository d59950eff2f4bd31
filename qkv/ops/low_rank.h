#pragma once
// The products of low-rank updates (ops/weight.h).

#include "qkv/ops/linear.h"

namespace qkv {

// Throws ShapeError, naming the operation, unless the update's matrices fit the weight.
void require_low_rank(const char* operation, const Weight& weight);

// y += scale (x A^T) B^T, for a weight's columns y [tokens, outputs] of a product.
void add_low_rank(const Tensor& x, const LowRank& update, WeightLayout layout, Tensor& y);

// The gradients of A, B and x, for the gradient dy of those columns.
void low_rank_backward(const Variable& x, const LowRank& update, const Tensor& dy);

}  // namespace qkv
