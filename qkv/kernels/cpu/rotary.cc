#include "qkv/kernels/cpu/kernels.h"

#include <algorithm>

#include "qkv/base/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "qkv/kernels/cpu/rotary.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "qkv/kernels/cpu/row-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::kernels::HWY_NAMESPACE {
namespace {

void rotary_range(const Rotary& a, int64_t begin, int64_t end) {
  const Floats d;
  const float* const from = a.x.f32();
  float* const to = a.y.f32();
  const int64_t half = a.rotated / 2, rest = a.d - a.rotated;
  const auto sign = hn::Set(d, a.direction == Turn::forward ? 1.0f : -1.0f);
  for (int64_t row = begin; row < end; ++row) {
    const float *cosines = a.cosines + a.positions[row] * half, *sines = a.sines + a.positions[row] * half;
    for (int64_t head = 0; head < a.heads; ++head) {
      const float* x = from + row * a.x_stride + head * a.d;
      float* y = to + row * a.y_stride + head * a.d;
      for_vectors(d, half, [&](auto part, int64_t i) HWY_ATTR {
        const auto cosine = load(d, cosines + i, part), sine = hn::Mul(sign, load(d, sines + i, part));
        const auto x0 = load(d, x + i, part), x1 = load(d, x + half + i, part);
        auto y0 = hn::NegMulAdd(x1, sine, hn::Mul(x0, cosine));
        auto y1 = hn::MulAdd(x0, sine, hn::Mul(x1, cosine));
        if (a.accumulate == Accumulate::yes) {
          y0 = hn::Add(y0, load(d, y + i, part));
          y1 = hn::Add(y1, load(d, y + half + i, part));
        }
        store(d, y0, y + i, part);
        store(d, y1, y + half + i, part);
      });
      if (x == y && a.accumulate == Accumulate::no) continue;
      for_vectors(d, rest, [&](auto part, int64_t i) HWY_ATTR {
        const int64_t at = a.rotated + i;
        const auto v = load(d, x + at, part);
        store(d, a.accumulate == Accumulate::yes ? hn::Add(v, load(d, y + at, part)) : v, y + at, part);
      });
    }
  }
}

}  // namespace
}  // namespace qkv::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qkv::kernels::cpu {
namespace {

HWY_EXPORT(rotary_range);

}  // namespace

void rotary(const Rotary& arguments) {
  const int64_t cols = arguments.heads * arguments.d;
  const int64_t grain = std::max<int64_t>(1, 32768 / std::max<int64_t>(cols, 1));
  parallel_for(arguments.rows, grain, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(rotary_range)(arguments, begin, end);
  });
}

}  // namespace qkv::kernels::cpu
#endif
