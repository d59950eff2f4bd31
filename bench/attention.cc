// Attention, held against the multiply-add peak of the machine at the same moment. Forward counts two
// products, backward five (the scores are computed again). Arguments: length, threads. It wants an idle
// machine.
//
//   bench_attention --benchmark_filter=forward/512

#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "qkv/base/parallel.h"
#include "qkv/base/philox.h"
#include "qkv/kernels/attention.h"
#include "qkv/kernels/limits.h"

namespace {

using namespace qkv;
using namespace qkv::kernels;

std::vector<float> random(int64_t count, uint64_t seed) {
  RandomStream stream(seed);
  std::vector<float> numbers(static_cast<size_t>(count));
  for (float& x : numbers) x = stream.uniform() * 2 - 1;
  return numbers;
}

struct Options {
  bool causal = false, backward = false;
  float dropout = 0;
};

// A batch of about 4,096 tokens and 8 heads of 64, or one sequence where it is longer. Queries, keys and
// values are columns of one matrix, as a fused projection leaves them.
void attention(benchmark::State& state, const Options& options) {
  constexpr int64_t kHeads = 8, kWidth = 64, kModel = kHeads * kWidth;
  const int64_t length = state.range(0), threads = state.range(1);
  const int64_t sequences = std::max<int64_t>(1, 4096 / length), tokens = sequences * length;
  std::vector<int32_t> offsets;
  for (int64_t s = 0; s <= sequences; ++s) offsets.push_back(static_cast<int32_t>(s * length));
  const auto projections = random(tokens * 3 * kModel, 1), grad_output = random(tokens * kModel, 2);
  std::vector<float> output(static_cast<size_t>(tokens * kModel)), gradients(projections.size());
  std::vector<float> log_sum_exp(static_cast<size_t>(tokens * kHeads));

  AttentionShape shape{.sequences = sequences,
                       .query_offsets = offsets.data(),
                       .key_offsets = offsets.data(),
                       .heads = kHeads,
                       .d_k = kWidth,
                       .d_v = kWidth,
                       .scale = 1 / std::sqrt(static_cast<float>(kWidth)),
                       .causal = options.causal};
  shape.dropout.rate = options.dropout;
  const float* q = projections.data();
  const AttentionInput input{q, q + kModel, q + 2 * kModel, 3 * kModel, 3 * kModel, 3 * kModel};
  const AttentionOutput to{
      .output = output.data(), .output_stride = kModel, .log_sum_exp = log_sum_exp.data()};
  float* g = gradients.data();
  const AttentionGradients slopes{.query = g,
                                  .key = g + kModel,
                                  .value = g + 2 * kModel,
                                  .query_stride = 3 * kModel,
                                  .key_stride = 3 * kModel,
                                  .value_stride = 3 * kModel};

  const int before = qkv::threads();
  set_threads(static_cast<int>(threads));
  attention_forward(shape, input, to);
  double peak = peak_gflops();
  for (auto _ : state) {
    if (options.backward) {
      attention_backward(shape, input, output.data(), kModel, log_sum_exp.data(), grad_output.data(), kModel,
                         slopes);
    } else {
      attention_forward(shape, input, to);
    }
    benchmark::ClobberMemory();
  }
  peak = std::max(peak, peak_gflops());
  set_threads(before);

  const double pairs = static_cast<double>(sequences * kHeads) * static_cast<double>(length) *
                       static_cast<double>(options.causal ? (length + 1) : 2 * length) / 2;
  const double operations = 2 * pairs * static_cast<double>(kWidth) * (options.backward ? 5 : 2) *
                            static_cast<double>(state.iterations()) / 1e9;
  state.counters["GFLOP/s"] = benchmark::Counter(operations, benchmark::Counter::kIsRate);
  state.counters["of_peak"] =
      benchmark::Counter(operations / (peak * static_cast<double>(threads)), benchmark::Counter::kIsRate);
  state.counters["peak"] = peak;
}

void every_case(benchmark::internal::Benchmark* b) {
  for (const int threads : {1, 2}) {
    for (const int length : {25, 128, 512, 2048}) b->Args({length, threads});
  }
  // Wall-clock time: the processor time of the first thread would hide what the second waits for.
  b->ArgNames({"", "threads"})->Unit(benchmark::kMillisecond)->MinTime(0.2)->UseRealTime();
}

#define QKV_BENCH(name, ...) BENCHMARK_CAPTURE(attention, name, Options{__VA_ARGS__})->Apply(every_case)

QKV_BENCH(forward, );
QKV_BENCH(forward_causal, .causal = true);
QKV_BENCH(forward_dropout, .dropout = 0.1f);
QKV_BENCH(backward, .backward = true);
QKV_BENCH(backward_causal, .causal = true, .backward = true);
QKV_BENCH(backward_dropout, .backward = true, .dropout = 0.1f);

}  // namespace

BENCHMARK_MAIN();
