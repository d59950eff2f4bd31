#include "qkv/ops/general/reduce.h"

#include <vector>

#include "qkv/kernels/broadcast.h"
#include "qkv/ops/general/contiguous.h"
#include "qkv/ops/profile.h"

namespace qkv {
namespace {

// factor * sum of x over the axes where `kept` has extent 1, reshaped to `shape`.
Variable scaled_sum(const char* operation, const Variable& x, float factor, const Shape& kept,
                    const Shape& shape) {
  const ProfileScope profile(operation);
  Tensor y = Tensor::empty(kept, DType::f32, x.value().device());
  kernels::sum_to(x.value(), factor, y, Accumulate::no);
  const Tensor result = y.reshape(shape);
  if (!Tape::records({x})) return result;
  return Tape::record(operation, result, {{x, false}}, [=](const Tensor& dy) {
    GradientSlot slot = x.gradient_slot();
    kernels::binary(kernels::BinaryOp::multiply, dy.reshape(kept), Tensor::full(Shape{}, factor, dy.device()),
                    slot.tensor, slot.accumulate);
  });
}

Variable over_all(const char* operation, const Variable& input, bool mean) {
  const Variable x = contiguous(operation, input);
  const int64_t count = x.shape().numel();
  if (mean && count == 0) throw ShapeError(concat(operation, ": expected elements, found shape ", x.shape()));
  const std::vector<int64_t> ones(static_cast<size_t>(x.shape().rank()), 1);
  return scaled_sum(operation, x, mean ? 1.0f / static_cast<float>(count) : 1.0f, Shape(ones), Shape{1});
}

Variable along(const char* operation, const Variable& input, int axis, KeepAxis keep, bool mean) {
  const Variable x = contiguous(operation, input);
  const int64_t count = x.shape()[axis];  // throws for an invalid axis
  if (mean && count == 0) {
    throw ShapeError(concat(operation, ": expected elements along axis ", axis, ", found shape ", x.shape()));
  }
  const auto at = static_cast<std::ptrdiff_t>(axis < 0 ? axis + x.shape().rank() : axis);
  std::vector<int64_t> extents(x.shape().extents().begin(), x.shape().extents().end());
  extents[static_cast<size_t>(at)] = 1;
  const Shape kept{std::span<const int64_t>(extents)};
  if (keep == KeepAxis::no) extents.erase(extents.begin() + at);
  return scaled_sum(operation, x, mean ? 1.0f / static_cast<float>(count) : 1.0f, kept,
                    Shape{std::span<const int64_t>(extents)});
}

}  // namespace

Variable sum(const Variable& x) { return over_all("sum", x, false); }
Variable mean(const Variable& x) { return over_all("mean", x, true); }
Variable sum(const Variable& x, int axis, KeepAxis keep) { return along("sum", x, axis, keep, false); }
Variable mean(const Variable& x, int axis, KeepAxis keep) { return along("mean", x, axis, keep, true); }

}  // namespace qkv
