#include "bench/support/peak.h"

#include <time.h>

#include <algorithm>
#include <cstdint>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/support/peak.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace qkv::bench::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Twelve chains of `steps` multiply-adds, enough to hide their latency. Returns the operations done.
double multiply_add(int64_t steps, float* result) {
  const hn::ScalableTag<float> d;
  constexpr int kChains = 12;
  const auto factor = hn::Set(d, 0.999f), addend = hn::Set(d, result[0]);
  hn::Vec<decltype(d)> sum[kChains];
#pragma GCC unroll 12
  for (int c = 0; c < kChains; ++c) sum[c] = hn::Set(d, static_cast<float>(c));
  for (int64_t i = 0; i < steps; ++i) {
#pragma GCC unroll 12
    for (int c = 0; c < kChains; ++c) sum[c] = hn::MulAdd(sum[c], factor, addend);
  }
  auto total = sum[0];
#pragma GCC unroll 12
  for (int c = 1; c < kChains; ++c) total = hn::Add(total, sum[c]);
  result[1] = hn::GetLane(hn::SumOfLanes(d, total));
  return 2.0 * kChains * static_cast<double>(hn::Lanes(d)) * static_cast<double>(steps);
}

}  // namespace
}  // namespace qkv::bench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qkv::bench {

HWY_EXPORT(multiply_add);

double peak_gflops() {
  const auto nanoseconds = [] {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
  };
  volatile float seed = 1e-3f;
  double best = 0;
  for (int repeat = 0; repeat < 5; ++repeat) {
    float result[2] = {seed, 0};
    const double begin = nanoseconds();
    const double operations = HWY_DYNAMIC_DISPATCH(multiply_add)(200000, result);
    best = std::max(best, operations / (nanoseconds() - begin));
    seed = result[1] != 0 ? 1e-3f : 0.0f;
  }
  return best;
}

}  // namespace qkv::bench
#endif  // HWY_ONCE
