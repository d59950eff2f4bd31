#include "qkv/kernels/reference/loss.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

namespace qkv::kernels::reference {

Doubles log_softmax(const float* x, const float* bias, int64_t rows, int64_t cols) {
  Doubles result;
  for (int64_t r = 0; r < rows; ++r) {
    Doubles z;
    for (int64_t c = 0; c < cols; ++c) {
      // The sum is rounded to float, as in the other backends, whose logits start from it.
      z.push_back(double{x[r * cols + c] + (bias == nullptr ? 0.0f : bias[c])});
    }
    const double max = *std::max_element(z.begin(), z.end());
    double sum = 0;
    for (const double v : z) sum += std::exp(v - max);
    for (const double v : z) result.push_back(v - max - std::log(sum));
  }
  return result;
}

Losses losses(const CrossEntropy& a) {
  const Doubles log_p = log_softmax(a.logits, a.bias, a.rows, a.cols);
  Losses result;
  const double smoothing = a.smoothing, uniform = smoothing / static_cast<double>(a.cols);
  for (int64_t r = 0; r < a.rows; ++r) {
    double sum = 0;
    for (int64_t c = 0; c < a.cols; ++c) {
      const double log_probability = log_p[static_cast<size_t>(r * a.cols + c)];
      sum += log_probability;
      const double target = uniform + (c == a.labels[r] ? 1 - smoothing : 0);
      result.gradient.push_back(double{a.grad_scale} * (std::exp(log_probability) - target));
    }
    result.nll.push_back(-log_p[static_cast<size_t>(r * a.cols + a.labels[r])]);
    result.loss.push_back((1 - smoothing) * result.nll.back() - uniform * sum);
  }
  return result;
}

void cross_entropy(const CrossEntropy& a) {
  const Losses result = losses(a);
  store(result.gradient, a.logits);
  store(result.loss, a.loss);
  store(result.nll, a.nll);
}

void log_softmax(const float* logits, const float* bias, float* log_probabilities, int64_t rows,
                 int64_t cols) {
  store(log_softmax(logits, bias, rows, cols), log_probabilities);
}

void best_tokens(const BestTokens& a) {
  const Doubles log_p = log_softmax(a.logits, nullptr, a.rows, a.cols);
  for (int64_t r = 0; r < a.rows; ++r) {
    std::vector<ScoredToken> row;
    for (int64_t c = 0; c < a.cols; ++c)
      row.push_back({static_cast<float>(log_p[at(r, a.cols, c)]), static_cast<int32_t>(c)});
    std::ranges::stable_sort(row, std::ranges::greater(), &ScoredToken::log_probability);
    std::copy_n(row.begin(), a.count, a.best + r * a.count);
  }
}

void softmax(const float* x, float* y, int64_t rows, int64_t cols) {
  Doubles p = log_softmax(x, nullptr, rows, cols);
  for (double& element : p) element = std::exp(element);
  store(p, y);
}

}  // namespace qkv::kernels::reference
