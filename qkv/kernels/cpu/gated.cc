#include "qkv/kernels/cpu/kernels.h"

#include <algorithm>

#include "qkv/base/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "qkv/kernels/cpu/gated.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "qkv/kernels/cpu/activation-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::kernels::HWY_NAMESPACE {
namespace {

template <class Function, class Drop>
void gated_rows(const Gated& a, float* y, int64_t begin, int64_t end) {
  const Floats d;
  const float *const gates = a.gate.f32(), *const xs = a.x.f32();
  Drop drop(a.dropout);
  for (int64_t row = begin; row < end; ++row) {
    const float *gate = gates + row * a.gate_stride, *x = xs + row * a.x_stride;
    float* to = y + row * a.cols;
    for_dropped_row(d, drop, row, a.cols, [&](auto part, int64_t column, int64_t i) HWY_ATTR {
      const auto share = Function::value(d, load(d, gate + column, part));
      store(d, drop.apply(d, hn::Mul(share, load(d, x + column, part)), i), to + column, part);
    });
  }
}

template <class Function, class Drop>
void gated_backward_rows(const Gated& a, const float* dy, const GradientRows& d_gate, const GradientRows& d_x,
                         int64_t begin, int64_t end) {
  const Floats d;
  const float *const gates = a.gate.f32(), *const xs = a.x.f32();
  float *const to_gate = d_gate.data.f32(), *const to_x = d_x.data.f32();
  Drop drop(a.dropout);
  for (int64_t row = begin; row < end; ++row) {
    const float *gate = gates + row * a.gate_stride, *x = xs + row * a.x_stride;
    const auto put = [&](float* data, const GradientRows& to, auto v, auto part, int64_t column) HWY_ATTR {
      float* at = data + row * to.stride + column;
      if (to.accumulate == Accumulate::yes) v = hn::Add(v, load(d, at, part));
      store(d, v, at, part);
    };
    for_dropped_row(d, drop, row, a.cols, [&](auto part, int64_t column, int64_t i) HWY_ATTR {
      const auto upstream = drop.apply(d, load(d, dy + row * a.cols + column, part), i);
      const auto g = load(d, gate + column, part);
      if (to_gate != nullptr) {
        const auto slope = hn::Mul(Function::derivative(d, g), load(d, x + column, part));
        put(to_gate, d_gate, hn::Mul(slope, upstream), part, column);
      }
      if (to_x != nullptr) put(to_x, d_x, hn::Mul(Function::value(d, g), upstream), part, column);
    });
  }
}

void gated_range(const Gated& a, float* y, int64_t begin, int64_t end) {
  with_classes(a.activation, a.dropout, [&]<class Function, class Drop>(Function, Drop*) {
    gated_rows<Function, Drop>(a, y, begin, end);
  });
}

void gated_backward_range(const Gated& a, const float* dy, const GradientRows& d_gate,
                          const GradientRows& d_x, int64_t begin, int64_t end) {
  with_classes(a.activation, a.dropout, [&]<class Function, class Drop>(Function, Drop*) {
    gated_backward_rows<Function, Drop>(a, dy, d_gate, d_x, begin, end);
  });
}

}  // namespace
}  // namespace qkv::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qkv::kernels::cpu {
namespace {

HWY_EXPORT(gated_range);
HWY_EXPORT(gated_backward_range);

int64_t rows_of_piece(int64_t cols) { return std::max<int64_t>(1, 16384 / std::max<int64_t>(cols, 1)); }

}  // namespace

void gated(const Gated& arguments, MutableElements y) {
  float* const to = y.f32();
  parallel_for(arguments.rows, rows_of_piece(arguments.cols), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(gated_range)(arguments, to, begin, end);
  });
}

void gated_backward(const Gated& arguments, Elements dy, const GradientRows& d_gate,
                    const GradientRows& d_x) {
  const float* const upstream = dy.f32();
  parallel_for(arguments.rows, rows_of_piece(arguments.cols), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(gated_backward_range)(arguments, upstream, d_gate, d_x, begin, end);
  });
}

}  // namespace qkv::kernels::cpu
#endif
