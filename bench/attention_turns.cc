// Attention at the shapes that standard input names, one JSON line each, for bench/compare_attention.py: so
// that two programs can take turns, shape by shape.
//
//   echo "512 8 8 64 0 1 2" | bench_attention_turns
//
// A line has: length, sequences, heads, features of a head, causal (0 or 1), backward too (0 or 1), threads.
// The answer has the median of the seconds of one call, and the multiply-add peak of one core just now.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <iostream>
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

// Seconds of one call, the median of at least half a second and three calls, or two seconds.
template <class Call>
double median_seconds(const Call& call) {
  call();
  std::vector<double> seconds;
  for (double sum = 0; sum < 0.5 || (seconds.size() < 3 && sum < 2); sum += seconds.back()) {
    const auto begin = std::chrono::steady_clock::now();
    call();
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

double seconds_of(int64_t length, int64_t sequences, int64_t heads, int64_t width, bool causal,
                  bool backward) {
  const int64_t tokens = sequences * length, model = heads * width;
  std::vector<int32_t> offsets;
  for (int64_t s = 0; s <= sequences; ++s) offsets.push_back(static_cast<int32_t>(s * length));
  const auto projections = random(tokens * 3 * model, 1), upstream = random(tokens * model, 2);
  std::vector<float> output(static_cast<size_t>(tokens * model)), gradients(projections.size());
  std::vector<float> log_sum_exp(static_cast<size_t>(tokens * heads));
  const AttentionShape shape{.sequences = sequences,
                             .query_offsets = offsets.data(),
                             .key_offsets = offsets.data(),
                             .heads = heads,
                             .d_k = width,
                             .d_v = width,
                             .scale = 1 / std::sqrt(static_cast<float>(width)),
                             .causal = causal};
  const float* q = projections.data();
  const AttentionInput input{.query = q,
                             .key = q + model,
                             .value = q + 2 * model,
                             .query_stride = 3 * model,
                             .key_stride = 3 * model,
                             .value_stride = 3 * model};
  float* g = gradients.data();
  const AttentionGradients slopes{.query = g,
                                  .key = g + model,
                                  .value = g + 2 * model,
                                  .query_stride = 3 * model,
                                  .key_stride = 3 * model,
                                  .value_stride = 3 * model};
  return median_seconds([&] {
    attention_forward(shape, input,
                      {.output = output.data(), .output_stride = model, .log_sum_exp = log_sum_exp.data()});
    if (backward) {
      attention_backward(shape, input, output.data(), model, log_sum_exp.data(), upstream.data(), model,
                         slopes);
    }
  });
}

}  // namespace

int main() {
  int64_t length = 0, sequences = 0, heads = 0, width = 0;
  int causal = 0, backward = 0, count = 0;
  while (std::cin >> length >> sequences >> heads >> width >> causal >> backward >> count) {
    set_threads(count);
    const double seconds = seconds_of(length, sequences, heads, width, causal != 0, backward != 0);
    std::cout << "{\"seconds\": " << seconds << ", \"peak_gflops\": " << peak_gflops() << "}" << std::endl;
  }
  return 0;
}
