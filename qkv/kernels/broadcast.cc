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

// Strides of element (i, j) of z [n, n], and of tables by distance, from their middle column on.
constexpr int64_t kRow = kAxes - 2, kColumn = kAxes - 1;
Extents square_of(int64_t n) {
  Extents extents;
  extents.fill(1);
  extents[kRow] = extents[kColumn] = n;
  return extents;
}
Extents strides_of_two(int64_t row, int64_t column) {
  Extents strides{};
  strides[kRow] = row;
  strides[kColumn] = column;
  return strides;
}
Extents seen_from_rows(const Tensor& table) { return strides_of_two(table.row_stride() - 1, 1); }
Extents seen_from_columns(const Tensor& table) { return strides_of_two(1, table.row_stride() - 1); }
int64_t middle(const Tensor& table) { return table.cols() / 2; }

}  // namespace

void add_distances(const Tensor& x, const Tensor& y, Tensor& z) {
  count_elements(3 * z.numel());
  backend_of("add_distances", z, x, y)
      .binary({.op = BinaryOp::add,
               .extents = square_of(z.rows()),
               .x_strides = seen_from_rows(x),
               .y_strides = seen_from_columns(y),
               .z_strides = strides_of_two(z.row_stride(), 1),
               .x = elements(x) + middle(x),
               .y = elements(y) + middle(y),
               .z = mutable_elements(z)});
}

void add_distances_backward(const Tensor& z, Tensor& x, Tensor& y) {
  count_elements(4 * z.numel());
  const Backend& on = backend_of("add_distances_backward", z, x, y);
  const Tensor one = Tensor::full(Shape{}, 1, z.device());
  const auto put = [&](Tensor& table, const Extents& strides) {
    on.binary({.op = BinaryOp::multiply,
               .extents = square_of(z.rows()),
               .x_strides = strides_of_two(z.row_stride(), 1),
               .z_strides = strides,
               .x = elements(z),
               .y = elements(one),
               .z = mutable_elements(table) + middle(table)});
  };
  put(x, seen_from_rows(x));
  put(y, seen_from_columns(y));
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
