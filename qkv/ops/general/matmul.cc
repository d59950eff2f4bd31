#include "qkv/ops/general/matmul.h"

#include <algorithm>
#include <vector>

#include "qkv/kernels/broadcast.h"
#include "qkv/kernels/product.h"
#include "qkv/ops/general/contiguous.h"
#include "qkv/ops/profile.h"

namespace qkv {
namespace {

using kernels::Transposed;

// The shape with its last two extents replaced.
Shape with_last_axes(const Shape& shape, int64_t rows, int64_t cols) {
  std::vector<int64_t> extents(shape.extents().begin(), shape.extents().end());
  extents[extents.size() - 2] = rows;
  extents[extents.size() - 1] = cols;
  return Shape{std::span<const int64_t>(extents)};
}

}  // namespace

Variable matmul(const Variable& left, const Variable& right) {
  const ProfileScope profile("matmul");
  const Variable x = contiguous_f32("matmul", left), y = contiguous_f32("matmul", right);
  const Shape &a = x.shape(), &b = y.shape();
  const bool fits = a.rank() >= 2 && b.rank() >= 2 && a[-1] == b[-2];
  if (!fits || (b.rank() > 2 && with_last_axes(a, 0, 0) != with_last_axes(b, 0, 0))) {
    throw ShapeError(concat("matmul: expected [..., m, k] and [..., k, n], found ", a, " and ", b));
  }
  const Shape shape = with_last_axes(a, a[-2], b[-1]);
  Tensor z = Tensor::empty(shape, DType::f32, x.value().device());
  // If y is one matrix for the whole batch, the batch is a single product.
  const auto folded = [one = b.rank() == 2](const Tensor& t) {
    return one ? t.reshape({t.numel() == 0 ? 0 : t.numel() / t.cols(), t.cols()}) : t;
  };
  Tensor rows = folded(z);
  kernels::batched_product(folded(x.value()), y.value(), Transposed::none, rows, Accumulate::no);
  if (!Tape::records({x, y})) return z;
  return Tape::record("matmul", z, {{x, y.requires_grad()}, {y, x.requires_grad()}}, [=](const Tensor& dz) {
    // dx = dz y^T, dy = x^T dz
    if (x.requires_grad()) {
      GradientSlot slot = x.gradient_slot();
      Tensor dx = folded(slot.tensor);
      kernels::batched_product(folded(dz), y.value(), Transposed::y, dx, slot.accumulate);
    }
    if (y.requires_grad()) {
      GradientSlot slot = y.gradient_slot();
      kernels::batched_product(folded(x.value()), folded(dz), Transposed::x, slot.tensor, slot.accumulate);
    }
  });
}

Variable transpose(const Variable& input) {
  const ProfileScope profile("transpose");
  const Variable x = contiguous_f32("transpose", input);
  const Shape& shape = x.shape();
  if (shape.rank() < 2) throw ShapeError(concat("transpose: expected [..., m, n], found ", shape));
  Tensor y = Tensor::empty(with_last_axes(shape, shape[-1], shape[-2]), DType::f32, x.value().device());
  kernels::transpose(x.value(), y, Accumulate::no);
  if (!Tape::records({x})) return y;
  return Tape::record("transpose", y, {{x, false}}, [=](const Tensor& dy) {
    GradientSlot slot = x.gradient_slot();
    kernels::transpose(dy, slot.tensor, slot.accumulate);
  });
}

}  // namespace qkv
