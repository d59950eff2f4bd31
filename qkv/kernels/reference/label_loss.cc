#include "qkv/kernels/reference/label_loss.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "qkv/kernels/reference/doubles.h"

namespace qkv::kernels::reference {
namespace {

double log_sum_exp(const LabelLoss& a, int64_t row) {
  const float* x = a.logits + row * a.cols;
  double largest = x[0], sum = 0;
  // Not std::fmax: GCC 12 ends with an internal error when it vectorises that for Arm.
  for (int64_t c = 0; c < a.cols; ++c) largest = std::max(largest, double{x[c]});
  for (int64_t c = 0; c < a.cols; ++c) sum += std::exp(x[c] - largest);
  return largest + std::log(sum);
}

// The weight of each class: loss = -sum_c targets[c] log p[c].
std::vector<double> targets(const LabelLoss& a, int64_t row) {
  std::vector<double> t;
  for (int64_t c = 0; c < a.cols; ++c) {
    const double weight = a.class_weights == nullptr ? 1 : a.class_weights[c];
    const double smoothing = a.smoothing;
    t.push_back(weight *
                (smoothing / static_cast<double>(a.cols) + (c == a.labels[row] ? 1 - smoothing : 0)));
  }
  return t;
}

}  // namespace

void label_loss(const LabelLossForward& f) {
  const LabelLoss& a = f.loss;
  for (int64_t row = 0; row < a.rows; ++row) {
    const double log_sum = log_sum_exp(a, row);
    const std::vector<double> t = targets(a, row);
    double loss = 0;
    for (int64_t c = 0; c < a.cols; ++c)
      loss += t[static_cast<size_t>(c)] * (log_sum - a.logits[row * a.cols + c]);
    f.log_sum_exp[row] = static_cast<float>(log_sum);
    f.losses[row] = a.labels[row] == a.ignored ? 0.0f : static_cast<float>(loss);
  }
}

void label_loss_backward(const LabelLossBackward& b) {
  const LabelLoss& a = b.loss;
  for (int64_t row = 0; row < a.rows; ++row) {
    const double log_sum = log_sum_exp(a, row);
    const std::vector<double> t = targets(a, row);
    double all = 0;
    for (const double target : t) all += target;
    for (int64_t c = 0; c < a.cols; ++c) {
      const double p = std::exp(a.logits[row * a.cols + c] - log_sum);
      const double gradient = b.d_losses[row] * (p * all - t[static_cast<size_t>(c)]);
      store_element(b.d_logits, row * a.cols + c, a.labels[row] == a.ignored ? 0 : gradient, b.accumulate);
    }
  }
}

void softmax_backward(const SoftmaxBackward& a) {
  for (int64_t row = 0; row < a.rows; ++row) {
    double sum = 0;
    for (int64_t i = row * a.cols; i < (row + 1) * a.cols; ++i) sum += a.dy[i] * (a.log ? 1.0 : a.y[i]);
    for (int64_t i = row * a.cols; i < (row + 1) * a.cols; ++i) {
      store_element(a.dx, i, a.log ? a.dy[i] - std::exp(double{a.y[i]}) * sum : a.y[i] * (a.dy[i] - sum),
                    a.accumulate);
    }
  }
}

}  // namespace qkv::kernels::reference
