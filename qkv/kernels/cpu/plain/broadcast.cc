#include "qkv/kernels/backend/broadcast.h"

#include <algorithm>
#include <array>
#include <type_traits>
#include <vector>

#include "qkv/base/parallel.h"
#include "qkv/kernels/cpu/kernels.h"

namespace qkv::kernels::cpu {
namespace {

constexpr int64_t kPiece = 32768;  // elements per piece of work

// The axes of a Broadcast without those of extent 1, with adjacent axes merged if all strides allow it.
struct Axes {
  int count = 0;
  std::array<int64_t, Broadcast::kAxes> extents{}, x{}, y{}, z{};
};

Axes merged(const Broadcast& a) {
  Axes axes;
  for (size_t i = 0; i < Broadcast::kAxes; ++i) {
    if (a.extents[i] == 1) continue;
    if (axes.count > 0) {
      const auto last = static_cast<size_t>(axes.count - 1);
      if (axes.x[last] == a.x_strides[i] * a.extents[i] && axes.y[last] == a.y_strides[i] * a.extents[i] &&
          axes.z[last] == a.z_strides[i] * a.extents[i]) {
        axes.extents[last] *= a.extents[i];
        axes.x[last] = a.x_strides[i];
        axes.y[last] = a.y_strides[i];
        axes.z[last] = a.z_strides[i];
        continue;
      }
    }
    const auto at = static_cast<size_t>(axes.count++);
    axes.extents[at] = a.extents[i];
    axes.x[at] = a.x_strides[i];
    axes.y[at] = a.y_strides[i];
    axes.z[at] = a.z_strides[i];
  }
  if (axes.count == 0) axes = {.count = 1, .extents = {1}, .x = {1}, .y = {1}, .z = {1}};
  return axes;
}

struct Run {
  const float* x;
  const float* y;
  float* z;
  int64_t x_stride, y_stride, z_stride, count;
};

template <class Function>
void run_with(const Run& r, Accumulate accumulate, const Function& f) {
  const auto loop = [&](auto x_stride, auto y_stride, auto z_stride) {
    if (accumulate == Accumulate::yes) {
      for (int64_t i = 0; i < r.count; ++i) r.z[i * z_stride] += f(r.x[i * x_stride], r.y[i * y_stride]);
    } else {
      for (int64_t i = 0; i < r.count; ++i) r.z[i * z_stride] = f(r.x[i * x_stride], r.y[i * y_stride]);
    }
  };
  using One = std::integral_constant<int64_t, 1>;
  using Zero = std::integral_constant<int64_t, 0>;
  if (r.z_stride == 1 && r.x_stride == 1 && r.y_stride == 1) return loop(One{}, One{}, One{});
  if (r.z_stride == 1 && r.x_stride == 1 && r.y_stride == 0) return loop(One{}, Zero{}, One{});
  if (r.z_stride == 1 && r.x_stride == 0 && r.y_stride == 1) return loop(Zero{}, One{}, One{});
  loop(r.x_stride, r.y_stride, r.z_stride);
}

void run(BinaryOp op, const Run& r, Accumulate accumulate) {
  switch (op) {
    case BinaryOp::add:
      return run_with(r, accumulate, [](float x, float y) { return x + y; });
    case BinaryOp::subtract:
      return run_with(r, accumulate, [](float x, float y) { return x - y; });
    case BinaryOp::multiply:
      return run_with(r, accumulate, [](float x, float y) { return x * y; });
    case BinaryOp::divide:
      return run_with(r, accumulate, [](float x, float y) { return x / y; });
  }
}

// The sum of contiguous numbers, in eight chains.
double sum_of(const float* x, int64_t count) {
  std::array<double, 8> chains{};
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    for (size_t k = 0; k < 8; ++k) chains[k] += static_cast<double>(x[i + static_cast<int64_t>(k)]);
  }
  for (size_t k = 0; i < count; ++i, ++k) chains[k] += static_cast<double>(x[i]);
  return ((chains[0] + chains[1]) + (chains[2] + chains[3])) +
         ((chains[4] + chains[5]) + (chains[6] + chains[7]));
}

void put(const AxisSum& a, float& to, double sum) {
  const auto value = static_cast<float>(static_cast<double>(a.factor) * sum);
  to = a.accumulate == Accumulate::yes ? to + value : value;
}

}  // namespace

void binary(const Broadcast& a) {
  const Axes axes = merged(a);
  const float *const xs = a.x.f32(), *const ys = a.y.f32();
  float* const zs = a.z.f32();
  const auto last = static_cast<size_t>(axes.count - 1);
  const int64_t inner = axes.extents[last];
  int64_t total = 1;
  for (int i = 0; i < axes.count; ++i) total *= axes.extents[static_cast<size_t>(i)];
  parallel_for(total, kPiece, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end;) {
      int64_t row = i / inner, x = 0, y = 0, z = 0;
      const int64_t column = i % inner, count = std::min(inner - column, end - i);
      for (size_t axis = last; axis-- > 0; row /= axes.extents[axis]) {
        const int64_t index = row % axes.extents[axis];
        x += index * axes.x[axis];
        y += index * axes.y[axis];
        z += index * axes.z[axis];
      }
      run(a.op,
          {xs + x + column * axes.x[last], ys + y + column * axes.y[last], zs + z + column * axes.z[last],
           axes.x[last], axes.y[last], axes.z[last], count},
          a.accumulate);
      i += count;
    }
  });
}

void sum_axis(const AxisSum& a) {
  const float* const x = a.x.f32();
  float* const y = a.y.f32();
  if (a.inner == 1 && a.outer == 1) {
    // A single sum: sums of pieces, added in order.
    std::vector<double> pieces(static_cast<size_t>((a.count + kPiece - 1) / kPiece));
    parallel_for(a.count, kPiece, [&](int64_t begin, int64_t end) {
      pieces[static_cast<size_t>(begin / kPiece)] = sum_of(x + begin, end - begin);
    });
    double sum = 0;
    for (const double piece : pieces) sum += piece;
    return put(a, *y, sum);
  }
  if (a.inner == 1) {
    const int64_t grain = std::max<int64_t>(1, kPiece / std::max<int64_t>(a.count, 1));
    parallel_for(a.outer, grain, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) put(a, y[row], sum_of(x + row * a.count, a.count));
    });
    return;
  }
  // Columns side by side, so that memory is read sequentially.
  constexpr int64_t kColumns = 256;
  const int64_t blocks = (a.inner + kColumns - 1) / kColumns;
  const int64_t grain = std::max<int64_t>(1, kPiece / (kColumns * std::max<int64_t>(a.count, 1)));
  parallel_for(a.outer * blocks, grain, [&](int64_t begin, int64_t end) {
    std::array<double, kColumns> sums;
    for (int64_t task = begin; task < end; ++task) {
      const int64_t outer = task / blocks, first = task % blocks * kColumns;
      const int64_t count = std::min(kColumns, a.inner - first);
      sums.fill(0);
      for (int64_t n = 0; n < a.count; ++n) {
        const float* row = x + (outer * a.count + n) * a.inner + first;
        for (int64_t c = 0; c < count; ++c) sums[static_cast<size_t>(c)] += static_cast<double>(row[c]);
      }
      for (int64_t c = 0; c < count; ++c)
        put(a, y[outer * a.inner + first + c], sums[static_cast<size_t>(c)]);
    }
  });
}

}  // namespace qkv::kernels::cpu
