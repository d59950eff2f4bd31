// Attention, compared with the machine's multiply-add peak measured at the same time. Forward counts two
// products, backward five (scores are recomputed), each over the pairs that causality allows. Arguments:
// length, threads. Needs an idle machine.
//
//   bench_attention --benchmark_filter=forward/512

#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "bench/attention_problem.h"
#include "qkv/base/parallel.h"
#include "qkv/kernels/limits.h"

namespace {

using namespace qkv;
using namespace qkv::kernels;
using bench::AttentionProblem;
using bench::random;

struct Options {
  bool causal = false, backward = false;
  float dropout = 0;
  int64_t tokens = 4096, heads = 8;
};

// A batch of about 4,096 tokens and 8 heads of width 64 (33 MB, larger than any cache), or one longer
// sequence.
void attention(benchmark::State& state, const Options& options) {
  constexpr int64_t kWidth = 64;
  const int64_t heads = options.heads, length = state.range(0), threads = state.range(1);
  const int64_t sequences = std::max<int64_t>(1, options.tokens / length);
  AttentionProblem problem(length, sequences, heads, kWidth, options.causal);
  problem.shape.dropout.rate = options.dropout;

  const int before = qkv::threads();
  set_threads(static_cast<int>(threads));
  problem.forward();
  double peak = peak_gflops();
  for (auto _ : state) {
    if (options.backward) {
      problem.backward();
    } else {
      problem.forward();
    }
    benchmark::ClobberMemory();
  }
  peak = std::max(peak, peak_gflops());
  set_threads(before);

  const double pairs = static_cast<double>(sequences * heads) * static_cast<double>(length) *
                       static_cast<double>(options.causal ? (length + 1) : 2 * length) / 2;
  const double operations = 2 * pairs * static_cast<double>(kWidth) * (options.backward ? 5 : 2) *
                            static_cast<double>(state.iterations()) / 1e9;
  state.counters["GFLOP/s"] = benchmark::Counter(operations, benchmark::Counter::kIsRate);
  state.counters["of_peak"] =
      benchmark::Counter(operations / (peak * static_cast<double>(threads)), benchmark::Counter::kIsRate);
  state.counters["peak"] = peak;
}

// One decoding step: a query for each of 64 sequences, over keys and values in a cache's layout. They are
// read once, so memory bandwidth is the bound. Arguments: keys, threads.
void decode(benchmark::State& state) {
  constexpr int64_t kRows = 64, kHeads = 8, kWidth = 64, kModel = kHeads * kWidth;
  const int64_t keys = state.range(0), threads = state.range(1);
  std::vector<int32_t> query_offsets, key_offsets;
  for (int64_t row = 0; row <= kRows; ++row) {
    query_offsets.push_back(static_cast<int32_t>(row));
    key_offsets.push_back(static_cast<int32_t>(row * keys));
  }
  const auto query = random(kRows * kModel, 1), key = random(kRows * keys * kModel, 2);
  const auto value = random(kRows * keys * kModel, 3);
  Tensor output = Tensor::zeros(query.shape());
  const AttentionShape shape{.sequences = kRows,
                             .query_offsets = query_offsets.data(),
                             .key_offsets = key_offsets.data(),
                             .heads = kHeads,
                             .d_k = kWidth,
                             .d_v = kWidth,
                             .scale = 1 / std::sqrt(static_cast<float>(kWidth))};
  const int before = qkv::threads();
  set_threads(static_cast<int>(threads));
  for (auto _ : state) {
    cpu::attention_forward(shape, {query.data(), key.data(), value.data(), kModel, kModel, kModel},
                           {.output = output.data(), .output_stride = kModel});
    benchmark::ClobberMemory();
  }
  set_threads(before);
  state.counters["GB/s"] =
      benchmark::Counter(static_cast<double>((key.numel() + value.numel()) * sizeof(float)) *
                             static_cast<double>(state.iterations()) / 1e9,
                         benchmark::Counter::kIsRate);
}

// Kilobytes, from a line of /proc/self/status.
int64_t memory_now(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind(name, 0) == 0) return std::atoll(line.c_str() + name.size() + 1);
  }
  return -1;
}

// Memory of forward and backward of one long sequence beyond inputs and outputs. Arguments: length, heads.
void memory(benchmark::State& state) {
  constexpr int64_t kWidth = 64;
  AttentionProblem problem(state.range(0), 1, state.range(1), kWidth, true);
  for (auto _ : state) {
    std::ofstream("/proc/self/clear_refs") << "5";  // resets the peak
    const int64_t before = memory_now("VmRSS");
    problem.forward();
    problem.backward();
    state.counters["beyond_MB"] = static_cast<double>(memory_now("VmHWM") - before) / 1024;
  }
}

void every_case(benchmark::internal::Benchmark* b) {
  for (const int threads : {1, 2}) {
    for (const int length : {10, 25, 32, 128, 512, 2048}) b->Args({length, threads});
  }
  // Wall-clock time, because the first thread's processor time would hide the wait for the second.
  b->ArgNames({"", "threads"})->Unit(benchmark::kMillisecond)->MinTime(0.2)->UseRealTime();
}

#define QKV_BENCH(name, ...) BENCHMARK_CAPTURE(attention, name, Options{__VA_ARGS__})->Apply(every_case)

QKV_BENCH(forward, );
QKV_BENCH(forward_causal, .causal = true);
QKV_BENCH(forward_dropout, .dropout = 0.1f);
QKV_BENCH(backward, .backward = true);
QKV_BENCH(backward_causal, .causal = true, .backward = true);
QKV_BENCH(backward_dropout, .backward = true, .dropout = 0.1f);
// About 256 tokens and 2 heads, which fit into a core's own cache.
QKV_BENCH(cached_forward, .tokens = 256, .heads = 2);
QKV_BENCH(cached_forward_causal, .causal = true, .tokens = 256, .heads = 2);
QKV_BENCH(cached_backward, .backward = true, .tokens = 256, .heads = 2);
QKV_BENCH(cached_backward_causal, .causal = true, .backward = true, .tokens = 256, .heads = 2);

BENCHMARK(decode)->ArgsProduct({{32, 128, 512}, {1, 2}})->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(memory)
    ->ArgsProduct({{16384}, {1, 8}})
    ->Unit(benchmark::kMillisecond)
    ->Iterations(1)
    ->UseRealTime();

}  // namespace

BENCHMARK_MAIN();
