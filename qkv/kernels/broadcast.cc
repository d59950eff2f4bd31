#include "qkv/kernels/broadcast.h"

#include <utility>

#include "qkv/kernels/dispatch.h"

namespace qkv::kernels {
namespace {

constexpr int kAxes = Broadcast::kAxes;
static_assert(kAxes == Shape::kMaxRank);

using Extents = std::array<int64_t, kAxes>;

// The extents from the last axis backwards; missing axes have extent 1.
Extents extents_of(const Tensor& x) {
  Extents extents;
  extents.fill(1);
  for (int i = 1; i <= x.rank(); ++i) extents[extents.size() - static_cast<size_t>(i)] = x.dim(-i);
  return extents;
}

// 0 for axes of extent 1.
Extents strides_of(const Tensor& x) {
  const Extents extents = extents_of(x);
  Extents strides{};
  int64_t stride = 1;
  for (int i = kAxes - 1; i >= 0; --i) {
    const auto at = static_cast<size_t>(i);
    strides[at] = extents[at] == 1 ? 0 : stride;
    stride = i == kAxes - 1 ? x.row_stride() : stride * extents[at];
  }
  return strides;
}

}  // namespace

void binary(BinaryOp op, const Tensor& x, const Tensor& y, Tensor& z, Accumulate accumulate) {
  if (z.numel() == 0) return;
  count_elements(x.numel() + y.numel() + memory_passes(accumulate) * z.numel());
  backend_of("binary", z, x, y)
      .binary({.op = op,
               .extents = extents_of(z),
               .x_strides = strides_of(x),
               .y_strides = strides_of(y),
               .z_strides = strides_of(z),
               .x = elements(x),
               .y = elements(y),
               .z = mutable_elements(z),
               .accumulate = accumulate});
}

void transpose(const Tensor& x, Tensor& y, Accumulate accumulate) {
  if (y.numel() == 0) return;
  count_elements((1 + memory_passes(accumulate)) * y.numel());
  const Tensor one = Tensor::full(Shape{}, 1, x.device());
  Extents strides = strides_of(x);
  std::swap(strides[kAxes - 1], strides[kAxes - 2]);
  backend_of("transpose", y, x)
      .binary({.op = BinaryOp::multiply,
               .extents = extents_of(y),
               .x_strides = strides,
               .z_strides = strides_of(y),
               .x = elements(x),
               .y = elements(one),
               .z = mutable_elements(y),
               .accumulate = accumulate});
}

namespace {

// Strides of element (i, j) of z in a table by distance, and the first element.
constexpr int64_t kRow = kAxes - 2, kColumn = kAxes - 1;
struct DistanceStrides {
  Extents extents, seen_from_rows, seen_from_columns, square;
  explicit DistanceStrides(int64_t n) {
    extents.fill(1);
    extents[kRow] = extents[kColumn] = n;
    seen_from_rows = seen_from_columns = square = Extents{};
    seen_from_rows[kRow] = seen_from_columns[kColumn] = 2 * n - 2;
    seen_from_rows[kColumn] = seen_from_columns[kRow] = square[kColumn] = 1;
    square[kRow] = n;
  }
};

}  // namespace

void add_distances(const Tensor& x, const Tensor& y, float factor, Tensor& z) {
  const int64_t n = z.rows();
  count_elements(4 * z.numel());
  const Backend& on = backend_of("add_distances", z, x, y);
  const DistanceStrides strides(n);
  on.binary({.op = BinaryOp::add,
             .extents = strides.extents,
             .x_strides = strides.seen_from_rows,
             .y_strides = strides.seen_from_columns,
             .z_strides = strides.square,
             .x = elements(x) + (n - 1),
             .y = elements(y) + (n - 1),
             .z = mutable_elements(z)});
  on.scale(elements(z), factor, mutable_elements(z), z.numel(), Accumulate::no);
}

void add_distances_backward(const Tensor& z, float factor, Tensor& x, Tensor& y) {
  const int64_t n = z.rows();
  count_elements(3 * z.numel());
  const Backend& on = backend_of("add_distances_backward", z, x, y);
  const Tensor one = Tensor::full(Shape{}, factor, z.device());
  const DistanceStrides strides(n);
  const auto put = [&](Tensor& to, const Extents& of_table) {
    to.fill_zero();
    on.binary({.op = BinaryOp::multiply,
               .extents = strides.extents,
               .x_strides = strides.square,
               .z_strides = of_table,
               .x = elements(z),
               .y = elements(one),
               .z = mutable_elements(to) + (n - 1)});
  };
  put(x, strides.seen_from_rows);
  put(y, strides.seen_from_columns);
}

void sum_to(const Tensor& x, float factor, Tensor& y, Accumulate accumulate) {
  if (y.numel() == 0) return;
  const Backend& on = backend_of("sum", x, y);
  Extents from = extents_of(x);
  const Extents to = extents_of(y);
  // One group of adjacent axes after another, innermost first; the last one writes to y.
  Tensor rest = x;
  int last = kAxes - 1;
  while (true) {
    while (last >= 0 && from[static_cast<size_t>(last)] == to[static_cast<size_t>(last)]) --last;
    int first = last;  // of the group: [first, last]
    AxisSum sum{.x = elements(rest), .factor = 1};
    for (; first >= 0 && from[static_cast<size_t>(first)] != to[static_cast<size_t>(first)]; --first) {
      sum.count *= from[static_cast<size_t>(first)];
      from[static_cast<size_t>(first)] = 1;
    }
    bool done = true;
    for (int i = 0; i < kAxes; ++i) {
      const auto at = static_cast<size_t>(i);
      (i <= first ? sum.outer : sum.inner) *= i > first && i <= last ? 1 : from[at];
      if (from[at] != to[at]) done = false;
    }
    if (done) {
      sum.factor = factor;
      sum.y = mutable_elements(y);
      sum.accumulate = accumulate;
      count_elements(sum.outer * sum.inner * (sum.count + memory_passes(accumulate)));
      return on.sum_axis(sum);
    }
    Tensor next = Tensor::empty({sum.outer, sum.inner}, DType::f32, x.device());
    sum.y = address(next);
    count_elements(sum.outer * sum.inner * (sum.count + 1));
    on.sum_axis(sum);
    rest = next;
    last = first;
  }
}

}  // namespace qkv::kernels
