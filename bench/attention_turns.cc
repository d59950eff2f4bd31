// Times attention for the shapes given on standard input, with one JSON line each, for
// bench/compare_attention.py, which alternates between two programs.
//
//   echo "512 8 8 64 0 1 2" | bench_attention_turns
//
// Input line: length, sequences, heads, head width, causal (0 or 1), with backward (0 or 1), threads. Output
// line: median time of a call in seconds, and the current multiply-add peak of one core.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <vector>

#include "qkv/base/parallel.h"
#include "qkv/base/philox.h"
#include "qkv/kernels/cpu/kernels.h"
#include "qkv/kernels/limits.h"
#include "qkv/tensor/tensor.h"

namespace {

using namespace qkv;
using namespace qkv::kernels;

Tensor random(int64_t count, uint64_t seed) {
  RandomStream stream(seed);
  Tensor numbers = Tensor::empty({count});
  for (float& x : numbers.values()) x = stream.uniform() * 2 - 1;
  return numbers;
}

// Self-attention of sequences of one length. Queries, keys and values are columns of one matrix, as in a
// fused projection.
class AttentionProblem {
 public:
  AttentionProblem(int64_t length, int64_t sequences, int64_t heads, int64_t width, bool causal)
      : model_(heads * width),
        projections_(random(sequences * length * 3 * model_, 1)),
        grad_output_(random(sequences * length * model_, 2)),
        output_(Tensor::zeros(grad_output_.shape())),
        gradients_(Tensor::zeros(projections_.shape())),
        log_sum_exp_(Tensor::zeros({sequences * length * heads})) {
    for (int64_t s = 0; s <= sequences; ++s) offsets_.push_back(static_cast<int32_t>(s * length));
    shape_ = {.sequences = sequences,
              .query_offsets = offsets_.data(),
              .key_offsets = offsets_.data(),
              .heads = heads,
              .d_k = width,
              .d_v = width,
              .scale = 1 / std::sqrt(static_cast<float>(width)),
              .causal = causal};
  }
  AttentionProblem(const AttentionProblem&) = delete;
  AttentionProblem& operator=(const AttentionProblem&) = delete;

  void forward() {
    cpu::attention_forward(
        shape_, input(),
        {.output = output_.data(), .output_stride = model_, .log_sum_exp = log_sum_exp_.data()});
  }
  // Call after forward().
  void backward() {
    float* g = gradients_.data();
    cpu::attention_backward(shape_, input(), output_.data(), model_, log_sum_exp_.data(), grad_output_.data(),
                            model_,
                            {.query = g,
                             .key = g + model_,
                             .value = g + 2 * model_,
                             .query_stride = 3 * model_,
                             .key_stride = 3 * model_,
                             .value_stride = 3 * model_});
  }

 private:
  AttentionInput input() const {
    const float* q = projections_.data();
    return {.query = q,
            .key = q + model_,
            .value = q + 2 * model_,
            .query_stride = 3 * model_,
            .key_stride = 3 * model_,
            .value_stride = 3 * model_};
  }

  int64_t model_;
  AttentionShape shape_;
  Tensor projections_, grad_output_, output_, gradients_, log_sum_exp_;
  std::vector<int32_t> offsets_;
};

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
  AttentionProblem problem(length, sequences, heads, width, causal);
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
