#include "qkv/ops/general/slice.h"

#include <utility>

#include "qkv/kernels/broadcast.h"
#include "qkv/ops/convert.h"
#include "qkv/ops/embedding.h"
#include "qkv/ops/general/contiguous.h"
#include "qkv/ops/general/reshape.h"
#include "qkv/ops/profile.h"
#include "qkv/ops/require.h"

namespace qkv {
namespace {

// A shape relative to one of its axes: [outer, extent, inner].
struct Axis {
  int index = 0;
  int64_t outer = 1, extent = 0, inner = 1;
};

Axis axis_of(const char* operation, const Shape& shape, int axis) {
  if (axis < -shape.rank() || axis >= shape.rank())
    throw ShapeError(concat(operation, ": axis ", axis, " of a tensor of shape ", shape));
  Axis result{.index = axis < 0 ? axis + shape.rank() : axis, .extent = shape[axis]};
  for (int i = 0; i < shape.rank(); ++i) {
    if (i < result.index) result.outer *= shape[i];
    if (i > result.index) result.inner *= shape[i];
  }
  return result;
}

Shape with_extent(const Shape& shape, int axis, int64_t extent) {
  std::vector<int64_t> extents(shape.extents().begin(), shape.extents().end());
  extents[static_cast<size_t>(axis)] = extent;
  return Shape{std::span<const int64_t>(extents)};
}

// Elements begin to begin + count along the axis of a contiguous tensor, as a strided view of rows.
Tensor view(Tensor x, const Axis& axis, int64_t begin, int64_t count) {
  return x.reshape({axis.outer, axis.extent * axis.inner}).columns(begin * axis.inner, count * axis.inner);
}

// to (+)= from, for equal shapes and any strides.
void copy(const Tensor& from, Tensor to, Accumulate accumulate) {
  if (accumulate == Accumulate::no) {
    to.copy_from(from);
  } else {
    kernels::binary(kernels::BinaryOp::add, from, to, to, Accumulate::no);
  }
}

}  // namespace

Variable slice(const Variable& input, int axis, int64_t begin, int64_t count) {
  const ProfileScope profile("slice");
  const Variable x = contiguous("slice", input);
  const Axis at = axis_of("slice", x.shape(), axis);
  const Tensor y = x.value().slice(axis, begin, count);
  if (!Tape::records({x})) return y;
  return Tape::record("slice", y, {{x, false}}, [=](const Tensor& dy) {
    GradientSlot slot = x.gradient_slot();
    if (slot.accumulate == Accumulate::no) slot.tensor.fill_zero();
    copy(dy.reshape({at.outer, count * at.inner}), view(slot.tensor, at, begin, count), Accumulate::yes);
  });
}

Variable concatenate(const std::vector<Variable>& inputs, int axis) {
  const ProfileScope profile("concatenate");
  if (inputs.empty()) throw ShapeError("concatenate: expected at least one part, found none");
  std::vector<Variable> parts;
  int64_t extent = 0;
  for (const Variable& input : inputs) {
    parts.push_back(contiguous("concatenate", input));
    require_same_dtype("concatenate", parts.front(), parts.back());
    const Shape &first = parts.front().shape(), &shape = parts.back().shape();
    const int index = axis_of("concatenate", first, axis).index;
    if (shape.rank() != first.rank() || with_extent(shape, index, first[axis]) != first) {
      throw ShapeError(concat("concatenate: shapes ", first, " and ", shape, " differ beside axis ", axis));
    }
    extent += shape[axis];
  }
  const int index = axis_of("concatenate", parts.front().shape(), axis).index;
  const Shape shape = with_extent(parts.front().shape(), index, extent);
  const Axis at = axis_of("concatenate", shape, axis);
  Tensor y = Tensor::empty(shape, parts.front().value().dtype(), parts.front().value().device());
  int64_t begin = 0;
  for (const Variable& part : parts) {
    const int64_t count = part.shape()[axis];
    view(y, at, begin, count).copy_from(part.value().reshape({at.outer, count * at.inner}));
    begin += count;
  }
  if (!Tape::records(parts)) return y;
  std::vector<Tape::Input> unsaved;
  for (const Variable& part : parts) unsaved.emplace_back(part, false);
  return Tape::record("concatenate", y, std::move(unsaved), [=](const Tensor& dy) {
    int64_t first = 0;
    for (const Variable& part : parts) {
      const int64_t count = part.shape()[axis];
      if (part.requires_grad()) {
        GradientSlot slot = part.gradient_slot();
        copy(view(dy, at, first, count), slot.tensor.reshape({at.outer, count * at.inner}), slot.accumulate);
      }
      first += count;
    }
  });
}

Variable gather(const Variable& input, const Tensor& rows) {
  const Variable x = contiguous("gather", input);
  if (x.shape().rank() < 1 || rows.rank() != 1) {
    throw ShapeError(concat("gather: expected x [n, ...] and rows i32 or i64 [m], found ", x.shape(), " and ",
                            name_of(rows.dtype()), " ", rows.shape()));
  }
  const int64_t count = x.shape()[0];
  const Tensor ids = as_ids("gather", "rows", rows), host_rows = to_host(ids);
  for (const int32_t row : host_rows.values<int32_t>()) {
    if (row < 0 || row >= count) throw DataError(concat("gather: row ", row, " is outside of x ", x.shape()));
  }
  const Shape shape = with_extent(x.shape(), 0, rows.numel());
  const int64_t cols = shape.numel() == 0 ? 0 : shape.numel() / rows.numel();
  if (cols == 0) return x.value().slice(0, 0, 0).reshape(shape);
  // The kernel writes f32.
  return in_dtype(reshape(embedding(reshape(to_f32(x), {count, cols}), ids, {}, {}), shape),
                  x.value().dtype());
}

}  // namespace qkv
