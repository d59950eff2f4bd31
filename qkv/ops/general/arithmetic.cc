#include "qkv/ops/general/arithmetic.h"

#include <algorithm>
#include <array>

#include "qkv/kernels/broadcast.h"
#include "qkv/ops/general/contiguous.h"
#include "qkv/ops/profile.h"

namespace qkv {
namespace {

using kernels::BinaryOp;

// The shape of x op y. Throws ShapeError if x and y cannot be broadcast.
Shape broadcast_shape(const char* operation, const Variable& x, const Variable& y) {
  const Shape a = x.shape(), b = y.shape();
  const int rank = std::max(a.rank(), b.rank());
  std::array<int64_t, Shape::kMaxRank> extents{};
  for (int i = 1; i <= rank; ++i) {
    const int64_t from_a = i <= a.rank() ? a[-i] : 1, from_b = i <= b.rank() ? b[-i] : 1;
    if (from_a != from_b && from_a != 1 && from_b != 1) {
      throw ShapeError(concat(operation, ": shapes ", a, " and ", b, " differ in axis -", i));
    }
    extents[static_cast<size_t>(rank - i)] = from_a == 1 ? from_b : from_a;
  }
  return Shape(std::span(extents.data(), static_cast<size_t>(rank)));
}

// Of the operand with the shape; of two, f32 unless both are bf16.
DType result_dtype(const Variable& x, const Variable& y, const Shape& shape) {
  const DType of_x = x.value().dtype(), of_y = y.value().dtype();
  if (of_x == of_y) return of_x;
  if ((x.shape() == shape) == (y.shape() == shape)) return DType::f32;
  return x.shape() == shape ? of_x : of_y;
}

// gradient of `to` (+)= factor * gradient, summed over the axes along which `to` was broadcast.
void pass_on(const Tensor& gradient, float factor, const Variable& to) {
  GradientSlot slot = to.gradient_slot();
  kernels::sum_to(gradient, factor, slot.tensor, slot.accumulate);
}

// gradient of `to` (+)= factor * (dy op other), likewise.
void pass_on(BinaryOp op, const Tensor& dy, const Tensor& other, float factor, const Variable& to) {
  if (factor == 1 && to.shape() == dy.shape()) {
    GradientSlot slot = to.gradient_slot();
    return kernels::binary(op, dy, other, slot.tensor, slot.accumulate);
  }
  Tensor product = Tensor::empty(dy.shape(), DType::f32, dy.device());
  kernels::binary(op, dy, other, product, Accumulate::no);
  pass_on(product, factor, to);
}

Variable binary(const char* operation, BinaryOp op, const Variable& left, const Variable& right) {
  const ProfileScope profile(operation);
  const Variable x = contiguous(operation, left), y = contiguous(operation, right);
  const Shape shape = broadcast_shape(operation, x, y);
  Tensor z = Tensor::empty(shape, result_dtype(x, y, shape), x.value().device());
  kernels::binary(op, x.value(), y.value(), z, Accumulate::no);
  if (!Tape::records({x, y})) return z;
  const bool product = op == BinaryOp::multiply;
  const Tape::Input saved_x{x, product && y.requires_grad()};
  const Tape::Input saved_y{y, op == BinaryOp::divide || (product && x.requires_grad())};
  return Tape::record(operation, z, {saved_x, saved_y}, [=](const Tensor& dz) {
    switch (op) {
      case BinaryOp::add:
      case BinaryOp::subtract:
        if (x.requires_grad()) pass_on(dz, 1, x);
        if (y.requires_grad()) pass_on(dz, op == BinaryOp::add ? 1.0f : -1.0f, y);
        break;
      case BinaryOp::multiply:
        if (x.requires_grad()) pass_on(op, dz, y.value(), 1, x);
        if (y.requires_grad()) pass_on(op, dz, x.value(), 1, y);
        break;
      case BinaryOp::divide: {
        // d(x / y) = dx / y - (x / y) dy / y
        Tensor quotient = Tensor::empty(dz.shape(), DType::f32, dz.device());
        kernels::binary(BinaryOp::divide, dz, y.value(), quotient, Accumulate::no);
        if (x.requires_grad()) pass_on(quotient, 1, x);
        if (y.requires_grad()) pass_on(BinaryOp::multiply, quotient, z, -1, y);
        break;
      }
    }
  });
}

Variable scalar(float value, const Variable& beside) {
  return Tensor::full(Shape{}, value, beside.defined() ? beside.value().device() : Device::cpu);
}

}  // namespace

Variable operator+(const Variable& x, const Variable& y) { return binary("add", BinaryOp::add, x, y); }
Variable operator-(const Variable& x, const Variable& y) {
  return binary("subtract", BinaryOp::subtract, x, y);
}
Variable operator*(const Variable& x, const Variable& y) {
  return binary("multiply", BinaryOp::multiply, x, y);
}
Variable operator/(const Variable& x, const Variable& y) { return binary("divide", BinaryOp::divide, x, y); }

Variable operator+(const Variable& x, float y) { return x + scalar(y, x); }
Variable operator+(float x, const Variable& y) { return scalar(x, y) + y; }
Variable operator-(const Variable& x, float y) { return x - scalar(y, x); }
Variable operator-(float x, const Variable& y) { return scalar(x, y) - y; }
Variable operator*(const Variable& x, float y) { return x * scalar(y, x); }
Variable operator*(float x, const Variable& y) { return scalar(x, y) * y; }
Variable operator/(const Variable& x, float y) { return x / scalar(y, x); }
Variable operator/(float x, const Variable& y) { return scalar(x, y) / y; }
Variable operator-(const Variable& x) { return scalar(-1, x) * x; }

}  // namespace qkv
