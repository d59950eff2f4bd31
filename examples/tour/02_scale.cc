// Why scores are divided by sqrt(d_k): the variance of q.k grows with d_k, and the softmax saturates.
#include "lesson.h"
using namespace qkv;  // NOLINT(google-build-using-namespace)

namespace {

struct Measured {
  double variance = 0;  // of the softmax's inputs
  double largest = 0;   // mean over queries of the largest weight
  double slope = 0;     // mean over queries of sum_j p_j (1 - p_j), the trace of the softmax's Jacobian
};

// Attention of 512 random queries over 512 random keys with this factor.
Measured measure(int64_t d_k, float factor) {
  constexpr int64_t tokens = 512;
  const Shape shape{1, tokens, 1, d_k};
  const auto attention = scaled_dot_product_attention(
      lesson::normal(shape, 1), lesson::normal(shape, 2), Tensor::zeros(shape),
      {.scale = factor, .return_weights = true, .return_scores = true, .return_top = 1});
  Measured result{.slope = 1};
  for (const float s : attention.scores[0].values())
    result.variance += static_cast<double>(s) * s / (tokens * tokens);
  for (const float p : attention.weights[0].values()) result.slope -= static_cast<double>(p) * p / tokens;
  for (const float p : attention.top_weights.values()) result.largest += p / tokens;
  return result;
}

}  // namespace

int main() {
  std::cout << "          q.k                         q.k / sqrt(d_k)\n"
               "  d_k     variance  largest  slope    variance  largest  slope\n";
  for (const int64_t d_k : {4, 16, 64, 256, 1024}) {
    std::cout << std::setw(5) << d_k;
    for (const float factor : {1.0f, 1 / std::sqrt(static_cast<float>(d_k))}) {
      const Measured m = measure(d_k, factor);
      std::cout << lesson::cell(m.variance, 2, 13) << lesson::cell(m.largest, 2, 9)
                << lesson::cell(m.slope, 2, 7);
    }
    std::cout << '\n';
  }
}
