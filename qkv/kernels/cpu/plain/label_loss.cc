#include "qkv/kernels/backend/label_loss.h"

#include <algorithm>
#include <cmath>

#include "qkv/base/parallel.h"
#include "qkv/kernels/cpu/kernels.h"

namespace qkv::kernels::cpu {
namespace {

template <class Body>
void for_rows(int64_t rows, int64_t cols, const Body& body) {
  parallel_for(rows, std::max<int64_t>(1, 16384 / std::max<int64_t>(cols, 1)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t row = begin; row < end; ++row) body(row);
               });
}

double weight(const LabelLoss& a, int64_t c) {
  return a.class_weights == nullptr ? 1.0 : static_cast<double>(a.class_weights[c]);
}

double sum_of_weights(const LabelLoss& a) {
  double sum = 0;
  for (int64_t c = 0; c < a.cols; ++c) sum += weight(a, c);
  return sum;
}

void put(float* to, double value, Accumulate accumulate) {
  *to = accumulate == Accumulate::yes ? *to + static_cast<float>(value) : static_cast<float>(value);
}

}  // namespace

void label_loss(const LabelLossForward& f) {
  const LabelLoss& a = f.loss;
  const double share = static_cast<double>(a.smoothing) / static_cast<double>(a.cols);
  for_rows(a.rows, a.cols, [&](int64_t row) {
    const float* x = a.logits + row * a.cols;
    const double most = *std::max_element(x, x + a.cols);
    double sum = 0;
    for (int64_t c = 0; c < a.cols; ++c) sum += std::exp(static_cast<double>(x[c]) - most);
    const double log_sum = most + std::log(sum);
    f.log_sum_exp[row] = static_cast<float>(log_sum);
    const int32_t label = a.labels[row];
    double loss = 0;
    if (label != a.ignored) {
      loss = (1 - static_cast<double>(a.smoothing)) * weight(a, label) *
             (log_sum - static_cast<double>(x[label]));
      for (int64_t c = 0; share != 0 && c < a.cols; ++c) {
        loss += share * weight(a, c) * (log_sum - static_cast<double>(x[c]));
      }
    }
    f.losses[row] = static_cast<float>(loss);
  });
}

void label_loss_backward(const LabelLossBackward& b) {
  const LabelLoss& a = b.loss;
  const double share = static_cast<double>(a.smoothing) / static_cast<double>(a.cols);
  const double all = share * sum_of_weights(a);
  for_rows(a.rows, a.cols, [&](int64_t row) {
    const float* x = a.logits + row * a.cols;
    float* dx = b.d_logits + row * a.cols;
    const int32_t label = a.labels[row];
    if (label == a.ignored) {
      if (b.accumulate == Accumulate::no) std::fill(dx, dx + a.cols, 0.0f);
      return;
    }
    const double own = (1 - static_cast<double>(a.smoothing)) * weight(a, label), upstream = b.d_losses[row];
    const double log_sum = b.log_sum_exp[row];
    for (int64_t c = 0; c < a.cols; ++c) {
      const double p = std::exp(static_cast<double>(x[c]) - log_sum);
      const double target = share * weight(a, c) + (c == label ? own : 0.0);
      put(dx + c, upstream * (p * (own + all) - target), b.accumulate);
    }
  });
}

void softmax_backward(const SoftmaxBackward& a) {
  for_rows(a.rows, a.cols, [&](int64_t row) {
    const float *y = a.y + row * a.cols, *dy = a.dy + row * a.cols;
    float* dx = a.dx + row * a.cols;
    double sum = 0;
    for (int64_t c = 0; c < a.cols; ++c) {
      sum += a.log ? static_cast<double>(dy[c]) : static_cast<double>(dy[c]) * static_cast<double>(y[c]);
    }
    for (int64_t c = 0; c < a.cols; ++c) {
      const double upstream = dy[c], value = y[c];
      put(dx + c, a.log ? upstream - std::exp(value) * sum : value * (upstream - sum), a.accumulate);
    }
  });
}

}  // namespace qkv::kernels::cpu
