#include "qkv/kernels/reference/rowwise.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

namespace qkv::kernels::reference {

double dropout_factor(const Dropout& dropout, int64_t row, int64_t column) {
  const bool kept = dropout.keeps(static_cast<uint32_t>(row), static_cast<uint32_t>(column));
  return kept ? double{dropout.scale()} : 0.0;
}

double activation(Activation activation, double x) {
  switch (activation) {
    case Activation::identity:
      return x;
    case Activation::relu:
      return std::max(x, 0.0);
    case Activation::gelu_exact:
      return x / 2 * std::erfc(-x / std::numbers::sqrt2);
    case Activation::gelu_tanh:
      return x / 2 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
    case Activation::silu:
      return x / (1 + std::exp(-x));
    case Activation::tanh:
      return std::tanh(x);
  }
  return NAN;
}

double activation_derivative(Activation activation, double x) {
  switch (activation) {
    case Activation::identity:
      return 1;
    case Activation::relu:
      return x > 0 ? 1 : 0;
    case Activation::gelu_exact:
      return std::erfc(-x / std::numbers::sqrt2) / 2 +
             x * std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
    case Activation::gelu_tanh: {
      const double root = std::sqrt(2 / std::numbers::pi);
      const double t = std::tanh(root * (x + 0.044715 * x * x * x));
      return (1 + t) / 2 + x / 2 * (1 - t * t) * root * (1 + 3 * 0.044715 * x * x);
    }
    case Activation::silu: {
      const double s = 1 / (1 + std::exp(-x));
      return s + x * s * (1 - s);
    }
    case Activation::tanh: {
      const double cosh = std::cosh(x);
      return 1 / (cosh * cosh);
    }
  }
  return NAN;
}

namespace {

struct Moments {
  double mean = 0, rstd = 0;
};

template <class Number>
Moments moments(NormKind kind, const Number* z, int64_t cols, double epsilon) {
  double sum = 0, squares = 0;
  for (int64_t c = 0; c < cols; ++c) sum += double{z[c]};
  const double mean = kind == NormKind::rms ? 0 : sum / static_cast<double>(cols);
  for (int64_t c = 0; c < cols; ++c) squares += (double{z[c]} - mean) * (double{z[c]} - mean);
  return {mean, 1 / std::sqrt(squares / static_cast<double>(cols) + epsilon)};
}

}  // namespace

Norm norm_forward(const NormInput& input) {
  const int64_t rows = input.rows, cols = input.cols;
  Norm norm;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) {
      double z = input.x[r * cols + c];
      if (input.branch != nullptr) {
        z += dropout_factor(input.dropout, r, c) * double{input.branch[r * cols + c]};
      }
      norm.sum.push_back(z);
    }
    const double* z = norm.sum.data() + r * cols;
    const Moments m = moments(input.kind, z, cols, double{input.epsilon});
    norm.mean.push_back(m.mean);
    norm.rstd.push_back(m.rstd);
    if (input.gain == nullptr) continue;
    for (int64_t c = 0; c < cols; ++c) {
      norm.y.push_back((z[c] - m.mean) * m.rstd * double{input.gain[c]} +
                       (input.shift == nullptr ? 0 : double{input.shift[c]}));
    }
  }
  return norm;
}

NormGradients norm_backward(const NormBackward& a, float epsilon) {
  NormGradients gradients;
  gradients.gain.resize(static_cast<size_t>(a.cols));
  gradients.shift.resize(static_cast<size_t>(a.cols));
  const double count = static_cast<double>(a.cols);
  for (int64_t r = 0; r < a.rows; ++r) {
    const float *z = a.z + r * a.cols, *dy = a.dy + r * a.cols;
    const Moments m = moments(a.kind, z, a.cols, double{epsilon});
    double sum = 0, product_sum = 0;
    for (int64_t c = 0; c < a.cols; ++c) {
      const double n = (double{z[c]} - m.mean) * m.rstd, g = double{dy[c]} * double{a.gain[c]};
      sum += g;
      product_sum += g * n;
      gradients.gain[static_cast<size_t>(c)] += double{dy[c]} * n;
      gradients.shift[static_cast<size_t>(c)] += double{dy[c]};
    }
    for (int64_t c = 0; c < a.cols; ++c) {
      const double n = (double{z[c]} - m.mean) * m.rstd, g = double{dy[c]} * double{a.gain[c]};
      const double centre = a.kind == NormKind::rms ? 0 : sum / count;
      const double dz = m.rstd * (g - centre - n * product_sum / count);
      gradients.dz.push_back(dz);
      gradients.branch.push_back(dz * dropout_factor(a.dropout, r, c));
    }
  }
  return gradients;
}

Doubles gated(const Gated& a) {
  Doubles y;
  for (int64_t r = 0; r < a.rows; ++r) {
    for (int64_t c = 0; c < a.cols; ++c) {
      y.push_back(activation(a.activation, double{a.gate[r * a.gate_stride + c]}) *
                  double{a.x[r * a.x_stride + c]} * dropout_factor(a.dropout, r, c));
    }
  }
  return y;
}

GatedGradients gated_backward(const Gated& a, const float* dy) {
  GatedGradients gradients;
  for (int64_t r = 0; r < a.rows; ++r) {
    for (int64_t c = 0; c < a.cols; ++c) {
      const double upstream = double{dy[r * a.cols + c]} * dropout_factor(a.dropout, r, c);
      const double gate = a.gate[r * a.gate_stride + c], x = a.x[r * a.x_stride + c];
      gradients.gate.push_back(upstream * x * activation_derivative(a.activation, gate));
      gradients.x.push_back(upstream * activation(a.activation, gate));
    }
  }
  return gradients;
}

Doubles rotary(const Rotary& a) {
  Doubles y;
  for (int64_t r = 0; r < a.rows; ++r) {
    for (int64_t h = 0; h < a.heads; ++h) {
      for (int64_t c = 0; c < a.d; ++c) {
        const int64_t half = a.d / 2, i = c % half, angle = a.positions[r] * half + i;
        const float* head = a.x + r * a.x_stride + h * a.d;
        const double cosine = a.cosines[angle];
        const double sine = a.direction == Turn::forward ? a.sines[angle] : -a.sines[angle];
        y.push_back(c < half ? double{head[i]} * cosine - double{head[half + i]} * sine
                             : double{head[half + i]} * cosine + double{head[i]} * sine);
      }
    }
  }
  return y;
}

Doubles log_softmax(const float* x, const float* bias, int64_t rows, int64_t cols) {
  Doubles result;
  for (int64_t r = 0; r < rows; ++r) {
    Doubles z;
    for (int64_t c = 0; c < cols; ++c) {
      // The sum is rounded to float, as the kernels' is: that is where their logits begin.
      z.push_back(double{x[r * cols + c] + (bias == nullptr ? 0.0f : bias[c])});
    }
    const double max = *std::max_element(z.begin(), z.end());
    double sum = 0;
    for (const double v : z) sum += std::exp(v - max);
    for (const double v : z) result.push_back(v - max - std::log(sum));
  }
  return result;
}

Losses cross_entropy(const CrossEntropy& a) {
  const Doubles log_p = log_softmax(a.logits, a.bias, a.rows, a.cols);
  Losses losses;
  const double smoothing = a.smoothing, uniform = smoothing / static_cast<double>(a.cols);
  for (int64_t r = 0; r < a.rows; ++r) {
    double sum = 0;
    for (int64_t c = 0; c < a.cols; ++c) {
      const double log_probability = log_p[static_cast<size_t>(r * a.cols + c)];
      sum += log_probability;
      const double target = uniform + (c == a.labels[r] ? 1 - smoothing : 0);
      losses.gradient.push_back(double{a.grad_scale} * (std::exp(log_probability) - target));
    }
    losses.nll.push_back(-log_p[static_cast<size_t>(r * a.cols + a.labels[r])]);
    losses.loss.push_back((1 - smoothing) * losses.nll.back() - uniform * sum);
  }
  return losses;
}

namespace {

double element(const WeightRows& weights, int64_t row, int64_t col) {
  const int64_t i = row * weights.cols + col;
  switch (weights.form) {
    case DType::bf16:
      return std::bit_cast<float>(uint32_t{static_cast<const BFloat16*>(weights.data)[i].bits} << 16);
    case DType::i8:
      return double{weights.scales[row]} * static_cast<const int8_t*>(weights.data)[i];
    default:
      return static_cast<const float*>(weights.data)[i];
  }
}

}  // namespace

Doubles embedding_forward(const EmbeddingForward& a) {
  Doubles y;
  for (int64_t t = 0; t < a.tokens; ++t) {
    for (int64_t c = 0; c < a.cols; ++c) {
      double v = double{a.factor} * element(a.table, a.ids[t], c);
      if (a.positions != nullptr) v += double{a.positions[a.position[t] * a.cols + c]};
      y.push_back(v * dropout_factor(a.dropout, t, c));
    }
  }
  return y;
}

void adam(const AdamStep& step, std::span<const float> gradient, double average_decay, AdamState& state) {
  const double beta1 = step.beta1, beta2 = step.beta2, t = static_cast<double>(step.step);
  for (size_t i = 0; i < gradient.size(); ++i) {
    const double g = double{step.gradient_factor} * double{gradient[i]};
    double &m = state.first_moment[i], &v = state.second_moment[i], &value = state.value[i];
    m = beta1 * m + (1 - beta1) * g;
    v = beta2 * v + (1 - beta2) * g * g;
    const double corrected_m = m / (1 - std::pow(beta1, t)), corrected_v = v / (1 - std::pow(beta2, t));
    value -= double{step.learning_rate} * (corrected_m / (std::sqrt(corrected_v) + double{step.epsilon}) +
                                           double{step.weight_decay} * value);
    state.average[i] += (1 - average_decay) * (value - state.average[i]);
  }
}

}  // namespace qkv::kernels::reference
