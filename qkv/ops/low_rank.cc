#include "qkv/ops/low_rank.h"

#include <array>

#include "qkv/kernels/matmul.h"
#include "qkv/kernels/pointwise.h"

namespace qkv {
namespace {

using kernels::PackedMatrix;

// A temporary of one operation.
Tensor temporary(int64_t rows, int64_t cols, const Tensor& like) {
  const MemoryScope memory(MemoryUse::scratch);
  return Tensor::empty({rows, cols}, DType::f32, like.device());
}

PackedMatrix packed_transpose(const Tensor& matrix) {
  const MemoryScope memory(MemoryUse::packed);
  return PackedMatrix::transposed({&matrix, 1});
}

PackedMatrix packed_rows(const Tensor& matrix) {
  const MemoryScope memory(MemoryUse::packed);
  return PackedMatrix::plain({&matrix, 1});
}

// y (+)= x M^T.
void multiply(const Tensor& x, const Tensor& matrix, WeightLayout layout, Tensor& y, Accumulate accumulate) {
  if (layout != WeightLayout::in_place) {
    kernels::matmul(x, packed_transpose(matrix), {}, y, accumulate);
  } else {
    const std::array blocks{QuantizedTensor{matrix, {}}};
    kernels::matmul(x, kernels::WeightView(blocks), {}, y, accumulate);
  }
}

// scale x A^T.
Tensor inner(const Tensor& x, const LowRank& update, WeightLayout layout) {
  Tensor result = temporary(x.rows(), update.a.value().rows(), x);
  multiply(x, update.a.value(), layout, result, Accumulate::no);
  kernels::scale(result, update.scale, result, Accumulate::no);
  return result;
}

}  // namespace

void require_low_rank(const char* operation, const Weight& weight) {
  const LowRank* update = weight.low_rank();
  if (!update) return;
  const Shape& outer = weight.shape();
  const auto fits = [&](const Variable& matrix, int axis, int64_t size) {
    const Tensor& value = matrix.value();
    return value.defined() && value.dtype() == DType::f32 && value.contiguous() && value.rank() == 2 &&
           value.dim(axis) == size;
  };
  const bool same_rank = fits(update->a, 1, outer[1]) && update->b.defined() &&
                         fits(update->b, 0, outer[0]) && update->b.value().dim(1) == update->a.value().dim(0);
  if (same_rank) return;
  throw ShapeError(concat(operation, ": expected a low-rank update of f32 [rank, ", outer[1], "] and [",
                          outer[0], ", rank] for the weight ", outer, ", found ", update->a.shape(), " and ",
                          update->b.defined() ? concat(update->b.shape()) : "none"));
}

void add_low_rank(const Tensor& x, const LowRank& update, WeightLayout layout, Tensor& y) {
  multiply(inner(x, update, layout), update.b.value(), layout, y, Accumulate::yes);
}

void low_rank_backward(const Variable& x, const LowRank& update, const Tensor& dy) {
  if (update.b.requires_grad()) {
    // Computed again rather than kept: its product is a small part of the layer's.
    GradientSlot slot = update.b.gradient_slot();
    kernels::matmul_transposed_a(dy, inner(x.value(), update, WeightLayout::packed), slot.tensor,
                                 slot.accumulate);
  }
  if (!update.a.requires_grad() && !x.requires_grad()) return;
  Tensor d_inner = temporary(dy.rows(), update.b.value().dim(1), dy);
  kernels::matmul(dy, packed_rows(update.b.value()), {}, d_inner, Accumulate::no);
  kernels::scale(d_inner, update.scale, d_inner, Accumulate::no);
  if (update.a.requires_grad()) {
    GradientSlot slot = update.a.gradient_slot();
    kernels::matmul_transposed_a(d_inner, x.value(), slot.tensor, slot.accumulate);
  }
  if (x.requires_grad()) {
    GradientSlot slot = x.gradient_slot();
    kernels::matmul(d_inner, packed_rows(update.a.value()), {}, slot.tensor, slot.accumulate);
  }
}

}  // namespace qkv
