#include "qkv/kernels/limits.h"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <fstream>

#include "qkv/base/parallel.h"
#include "qkv/kernels/instruction_set.h"
#include "qkv/tensor/storage.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "qkv/kernels/cpu/limits.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace qkv::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

const char* target_name() { return hwy::TargetName(HWY_TARGET); }

// Independent chains of multiply-adds: enough to hide their latency, few enough for the registers.
constexpr int kChains = 12;

// Returns the number of operations.
double multiply_add(int64_t steps, float* result) {
  const hn::ScalableTag<float> d;
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

// `count` is a multiple of four vectors.
float sum_of(const float* x, int64_t count) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto a = hn::Zero(d), b = a, c = a, e = a;
  for (int64_t i = 0; i < count; i += 4 * lanes) {
    a = hn::Add(a, hn::Load(d, x + i));
    b = hn::Add(b, hn::Load(d, x + i + lanes));
    c = hn::Add(c, hn::Load(d, x + i + 2 * lanes));
    e = hn::Add(e, hn::Load(d, x + i + 3 * lanes));
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(a, b), hn::Add(c, e))));
}

void triad(const float* b, const float* c, float factor, float* a, int64_t count) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto s = hn::Set(d, factor);
  for (int64_t i = 0; i < count; i += lanes)
    hn::Stream(hn::MulAdd(hn::Load(d, c + i), s, hn::Load(d, b + i)), d, a + i);
}

}  // namespace
}  // namespace qkv::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qkv::kernels {
namespace {

HWY_EXPORT(target_name);
HWY_EXPORT(multiply_add);
HWY_EXPORT(sum_of);
HWY_EXPORT(triad);

constexpr int64_t kArray = int64_t{16} << 20;  // floats: 64 MiB, larger than the caches of a socket's core
constexpr int64_t kPiece = int64_t{1} << 18;   // floats per piece of work

double seconds_of_thread() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// The minimum time of several runs in seconds, because other load can only lengthen a run.
template <class Body>
double shortest(int turns, const Body& body) {
  double best = 1e300;
  for (int turn = 0; turn < turns; ++turn) {
    const auto begin = std::chrono::steady_clock::now();
    body();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return best;
}

// Uses the result, so that the compiler cannot remove the computation.
void keep(float number) {
  volatile float sink = number;
  static_cast<void>(sink);
}

}  // namespace

std::string instructions() {
  instruction_set();  // limits Highway
  const std::string name = HWY_DYNAMIC_DISPATCH(target_name)();
  if (name.starts_with("AVX3")) return "AVX-512";
  return name == "EMU128" || name == "SCALAR" ? "portable" : name;
}

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown processor";
}

double peak_gflops() {
  instruction_set();
  double best = 0;
  for (int turn = 0; turn < 5; ++turn) {
    float result[2] = {1e-3f, 0};
    const double begin = seconds_of_thread();
    const double operations = HWY_DYNAMIC_DISPATCH(multiply_add)(200000, result);
    best = std::max(best, operations / (seconds_of_thread() - begin));
    keep(result[1]);
  }
  return best / 1e9;
}

MachineLimits measure_limits() {
  instruction_set();
  MachineLimits limits{.threads = threads()};
  constexpr int64_t kSteps = 1000000;  // about 10 ms, which makes the waking of other threads negligible
  double operations = 0;
  const double compute = shortest(8, [&] {
    parallel_for(limits.threads, 1, [&](int64_t begin, int64_t /*end*/) {
      float result[2] = {1e-3f, 0};
      const double mine = HWY_DYNAMIC_DISPATCH(multiply_add)(kSteps, result);
      keep(result[1]);
      if (begin == 0) operations = mine * limits.threads;
    });
  });
  limits.gflops = operations / compute / 1e9;

  const Storage memory = allocate(static_cast<size_t>(3 * kArray) * sizeof(float));
  float* const a = reinterpret_cast<float*>(memory.get());
  float *const b = a + kArray, *const c = b + kArray;
  parallel_for(3 * kArray, kPiece, [&](int64_t begin, int64_t end) { std::fill(a + begin, a + end, 1.0f); });
  const double read = shortest(6, [&] {
    parallel_for(3 * kArray, kPiece, [&](int64_t begin, int64_t end) {
      keep(HWY_DYNAMIC_DISPATCH(sum_of)(a + begin, end - begin));
    });
  });
  const double both = shortest(6, [&] {
    parallel_for(kArray, kPiece, [&](int64_t begin, int64_t end) {
      HWY_DYNAMIC_DISPATCH(triad)(b + begin, c + begin, 0.5f, a + begin, end - begin);
    });
  });
  constexpr double kBytes = 3.0 * static_cast<double>(kArray) * sizeof(float);
  limits.read_gb_per_s = kBytes / read / 1e9;
  limits.triad_gb_per_s = kBytes / both / 1e9;
  return limits;
}

}  // namespace qkv::kernels
#endif  // HWY_ONCE
