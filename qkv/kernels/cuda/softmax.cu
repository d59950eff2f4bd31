// Softmax, its logarithm, and losses: a block for each row.

#include "qkv/kernels/cuda/grid.h"
#include "qkv/kernels/cuda/kernels.h"
#include "qkv/kernels/cuda/softmax.h"

namespace qkv::kernels::cuda {
namespace {

QKV_DEVICE float class_weight(const LabelLoss& a, int64_t c) {
  return a.class_weights == nullptr ? 1 : a.class_weights[c];
}

// loss = -sum_c target[c] log p[c]
QKV_DEVICE float target(const LabelLoss& a, int32_t label, int64_t c) {
  return class_weight(a, c) * (a.smoothing / static_cast<float>(a.cols) + (c == label ? 1 - a.smoothing : 0));
}

}  // namespace

void log_softmax(const float* logits, const float* bias, float* log_probabilities, int64_t rows,
                 int64_t cols) {
  launch(rows, [=] QKV_DEVICE(const Thread& thread) {
    const float* const x = logits + thread.block * cols;
    const float log_sum = log_sum_exp(thread, x, bias, cols);
    for (int64_t c = thread.index; c < cols; c += thread.count)
      log_probabilities[thread.block * cols + c] = biased(x, bias, c) - log_sum;
  });
}

void softmax(const float* x, float* y, int64_t rows, int64_t cols) {
  launch(rows, [=] QKV_DEVICE(const Thread& thread) {
    const float log_sum = log_sum_exp(thread, x + thread.block * cols, nullptr, cols);
    for (int64_t c = thread.index; c < cols; c += thread.count)
      y[thread.block * cols + c] = ::expf(x[thread.block * cols + c] - log_sum);
  });
}

void softmax_backward(const SoftmaxBackward& a) {
  launch(a.rows, [=] QKV_DEVICE(const Thread& thread) {
    const int64_t first = thread.block * a.cols;
    double sum = 0;
    for (int64_t i = first + thread.index; i < first + a.cols; i += thread.count)
      sum += static_cast<double>(a.dy[i]) * (a.log ? 1.0f : a.y[i]);
    const auto all = static_cast<float>(thread.sum(sum));
    for (int64_t i = first + thread.index; i < first + a.cols; i += thread.count)
      put(a.dx[i], a.log ? a.dy[i] - ::expf(a.y[i]) * all : a.y[i] * (a.dy[i] - all), a.accumulate);
  });
}

void cross_entropy(const CrossEntropy& a) {
  launch(a.rows, [=] QKV_DEVICE(const Thread& thread) {
    float* const x = a.logits + thread.block * a.cols;
    const int32_t label = a.labels[thread.block];
    const float log_sum = log_sum_exp(thread, x, a.bias, a.cols);
    const float uniform = a.smoothing / static_cast<float>(a.cols);
    const float nll = log_sum - biased(x, a.bias, label);
    thread.synchronise();  // the label's logit has been read
    double sum = 0;
    for (int64_t c = thread.index; c < a.cols; c += thread.count) {
      const float log_p = biased(x, a.bias, c) - log_sum;
      sum += log_p;
      x[c] = a.grad_scale * (::expf(log_p) - uniform - (c == label ? 1 - a.smoothing : 0));
    }
    sum = thread.sum(sum);
    if (thread.index != 0) return;
    a.nll[thread.block] = nll;
    a.loss[thread.block] = (1 - a.smoothing) * nll - uniform * static_cast<float>(sum);
  });
}

void label_loss(const LabelLossForward& f) {
  const LabelLoss a = f.loss;
  launch(a.rows, [=] QKV_DEVICE(const Thread& thread) {
    const float* const x = a.logits + thread.block * a.cols;
    const int32_t label = a.labels[thread.block];
    const float log_sum = log_sum_exp(thread, x, nullptr, a.cols);
    double loss = 0;
    for (int64_t c = thread.index; c < a.cols; c += thread.count)
      loss += static_cast<double>(target(a, label, c)) * (log_sum - x[c]);
    loss = thread.sum(loss);
    if (thread.index != 0) return;
    f.log_sum_exp[thread.block] = log_sum;
    f.losses[thread.block] = label == a.ignored ? 0.0f : static_cast<float>(loss);
  });
}

void label_loss_backward(const LabelLossBackward& b) {
  const LabelLoss a = b.loss;
  launch(a.rows, [=] QKV_DEVICE(const Thread& thread) {
    const float* const x = a.logits + thread.block * a.cols;
    const int32_t label = a.labels[thread.block];
    double all = 0;
    for (int64_t c = thread.index; c < a.cols; c += thread.count) all += target(a, label, c);
    const auto targets = static_cast<float>(thread.sum(all));
    for (int64_t c = thread.index; c < a.cols; c += thread.count) {
      const float p = ::expf(x[c] - b.log_sum_exp[thread.block]);
      const float gradient = b.d_losses[thread.block] * (p * targets - target(a, label, c));
      put(b.d_logits[thread.block * a.cols + c], label == a.ignored ? 0 : gradient, b.accumulate);
    }
  });
}

}  // namespace qkv::kernels::cuda
