// Times attention for the shapes given on standard input, with one JSON line each, for
// bench/compare_attention.py, which alternates between two programs.
//
//   echo "512 8 8 64 0 1 2" | bench_attention_turns
//
// Input line: length, sequences, heads, head width, causal (0 or 1), with backward (0 or 1), threads. Output
// line: median time of a call in seconds, and the current multiply-add peak of one core.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <vector>

#include "bench/attention_problem.h"
#include "qkv/base/parallel.h"
#include "qkv/kernels/limits.h"

namespace {

using namespace qkv;
using namespace qkv::kernels;

// Median time of a call in seconds, over at least half a second and three calls, or two seconds.
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
  bench::AttentionProblem problem(length, sequences, heads, width, causal);
  return median_seconds([&] {
    problem.forward();
    if (backward) problem.backward();
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
