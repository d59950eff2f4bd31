// Optimizers: the formulas of kernels/backend/optimizer.h, an element at a time.

#include <algorithm>
#include <cmath>
#include <span>

#include "qkv/kernels/cuda/grid.h"
#include "qkv/kernels/cuda/kernels.h"
#include "qkv/kernels/cuda/memory.h"

namespace qkv::kernels::cuda {
namespace {

// w <- w - update(element, g), where g includes coupled weight decay; then the average.
template <class Update>
void update_each(const OptimizerPass& pass, const ParameterUpdate& p, bool decoupled, const Update& update) {
  for_each(p.count(), [=] QKV_DEVICE(int64_t i) {
    const float w = p.value[i];
    float g = pass.gradient_factor * p.gradient[i];
    if (!decoupled) g += p.weight_decay * w;
    const float kept = decoupled ? (1 - p.learning_rate * p.weight_decay) * w : w;
    const float value = kept - update(i, g);
    p.value[i] = value;
    if (p.average != nullptr) p.average[i] += (1 - pass.average_decay) * (value - p.average[i]);
  });
}

}  // namespace

void adam(const AdamRule& rule, const OptimizerPass& pass, std::span<const ParameterUpdate> updates) {
  for (const ParameterUpdate& p : updates) {
    const auto t = static_cast<double>(p.step);
    const auto m_factor = static_cast<float>(1 / (1 - std::pow(double{rule.beta1}, t)));
    const auto v_factor = static_cast<float>(1 / (1 - std::pow(double{rule.beta2}, t)));
    update_each(pass, p, rule.decoupled, [=] QKV_DEVICE(int64_t i, float g) {
      const float m = rule.beta1 * p.state[0][i] + (1 - rule.beta1) * g;
      float v = rule.beta2 * p.state[1][i] + (1 - rule.beta2) * g * g;
      p.state[0][i] = m;
      p.state[1][i] = v;
      if (rule.amsgrad) {
        if (p.state[2][i] > v) v = p.state[2][i];
        p.state[2][i] = v;
      }
      return p.learning_rate * m * m_factor / (::sqrtf(v * v_factor) + rule.epsilon);
    });
  }
}

void sgd(const SgdRule& rule, const OptimizerPass& pass, std::span<const ParameterUpdate> updates) {
  for (const ParameterUpdate& p : updates) {
    update_each(pass, p, false, [=] QKV_DEVICE(int64_t i, float g) {
      if (rule.momentum == 0) return p.learning_rate * g;
      const float b = p.step == 1 ? g : rule.momentum * p.state[0][i] + (1 - rule.dampening) * g;
      p.state[0][i] = b;
      return p.learning_rate * (rule.nesterov ? g + rule.momentum * b : b);
    });
  }
}

void rmsprop(const RmspropRule& rule, const OptimizerPass& pass, std::span<const ParameterUpdate> updates) {
  for (const ParameterUpdate& p : updates) {
    update_each(pass, p, false, [=] QKV_DEVICE(int64_t i, float g) {
      float v = rule.alpha * p.state[0][i] + (1 - rule.alpha) * g * g;
      p.state[0][i] = v;
      if (rule.centered) {
        const float a = rule.alpha * p.state[1][i] + (1 - rule.alpha) * g;
        p.state[1][i] = a;
        v = v - a * a > 0 ? v - a * a : 0;
      }
      float update = g / (::sqrtf(v) + rule.epsilon);
      if (rule.momentum != 0) {
        update += rule.momentum * p.state[2][i];
        p.state[2][i] = update;
      }
      return p.learning_rate * update;
    });
  }
}

void adagrad(const AdagradRule& rule, const OptimizerPass& pass, std::span<const ParameterUpdate> updates) {
  for (const ParameterUpdate& p : updates) {
    const float rate = p.learning_rate / (1 + static_cast<float>(p.step - 1) * rule.lr_decay);
    update_each(pass, p, false, [=] QKV_DEVICE(int64_t i, float g) {
      const float v = p.state[0][i] + g * g;
      p.state[0][i] = v;
      return rate * g / (::sqrtf(v) + rule.epsilon);
    });
  }
}

void adafactor(const AdafactorRule& rule, const OptimizerPass& pass,
               std::span<const ParameterUpdate> updates) {
  for (const ParameterUpdate& p : updates) {
    const int64_t rows = p.rows, cols = p.cols, count = p.count();
    if (count == 0) continue;
    const auto t = static_cast<double>(p.step);
    const auto share = static_cast<float>(std::pow(t, double{rule.beta2_decay}));
    const double smallest = double{rule.epsilon1} * double{rule.epsilon1};
    const Array<float> updates_array(count), mean_array(p.matrices);
    const Array<double> squares_array(2);
    float *const all = updates_array.data(), *const means = mean_array.data();
    double* const squares = squares_array.data();
    const auto square = [=] QKV_DEVICE(int64_t i) {
      const double g = static_cast<double>(pass.gradient_factor) * p.gradient[i];
      return g * g;
    };
    if (p.matrix) {
      launch(p.matrices * rows, [=] QKV_DEVICE(const Thread& thread) {
        double sum = 0;
        for (int64_t c = thread.index; c < cols; c += thread.count) sum += square(thread.block * cols + c);
        sum = thread.sum(sum);
        float& r = p.state[0][thread.block];
        if (thread.index == 0) r += share * (static_cast<float>(sum / static_cast<double>(cols)) - r);
      });
      launch(p.matrices * cols, [=] QKV_DEVICE(const Thread& thread) {
        const int64_t first = thread.block / cols * rows * cols + thread.block % cols;
        double sum = 0;
        for (int64_t r = thread.index; r < rows; r += thread.count) sum += square(first + r * cols);
        sum = thread.sum(sum);
        float& c = p.state[1][thread.block];
        if (thread.index == 0) c += share * (static_cast<float>(sum / static_cast<double>(rows)) - c);
      });
      launch(p.matrices, [=] QKV_DEVICE(const Thread& thread) {
        double sum = 0;
        for (int64_t r = thread.index; r < rows; r += thread.count)
          sum += p.state[0][thread.block * rows + r];
        sum = thread.sum(sum);
        if (thread.index == 0) means[thread.block] = static_cast<float>(sum / static_cast<double>(rows));
      });
    }
    for_each(count, [=] QKV_DEVICE(int64_t i) {
      double v = 0;
      if (p.matrix) {
        const int64_t matrix = i / (rows * cols);
        const double mean = means[matrix] > rule.epsilon1 ? means[matrix] : rule.epsilon1;
        v = static_cast<double>(p.state[0][i / cols]) * p.state[1][matrix * cols + i % cols] / mean;
      } else {
        p.state[0][i] += share * (static_cast<float>(square(i)) - p.state[0][i]);
        v = p.state[0][i];
      }
      const double g = static_cast<double>(pass.gradient_factor) * p.gradient[i];
      all[i] = static_cast<float>(g / ::sqrt(v > smallest ? v : smallest));
    });
    sum_of_squares(all, count, squares);
    sum_of_squares(p.value, count, squares + 1);
    const auto rate_bound = static_cast<float>(std::min(double{p.learning_rate}, 1 / std::sqrt(t)));
    for_each(count, [=] QKV_DEVICE(int64_t i) {
      const auto n = static_cast<double>(count);
      const double rms = ::sqrt(squares[1] / n), excess = ::sqrt(squares[0] / n) / rule.clip_threshold;
      const double relative = rms > rule.epsilon2 ? rms : rule.epsilon2;
      const auto step = static_cast<float>(relative * rate_bound / (excess > 1 ? excess : 1));
      const float value = (1 - p.learning_rate * p.weight_decay) * p.value[i] - step * all[i];
      p.value[i] = value;
      if (p.average != nullptr) p.average[i] += (1 - pass.average_decay) * (value - p.average[i]);
    });
  }
}

}  // namespace qkv::kernels::cuda
