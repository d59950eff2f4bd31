#include "qkv/kernels/reference/activation.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "qkv/kernels/reference/dropout.h"

namespace qkv::kernels::reference {

namespace {

constexpr double kQuickGelu = 1.702;

}  // namespace

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
    case Activation::relu_squared:
      return x > 0 ? x * x : 0;
    case Activation::quick_gelu:
      return x / (1 + std::exp(-kQuickGelu * x));
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
    case Activation::relu_squared:
      return x > 0 ? 2 * x : 0;
    case Activation::quick_gelu: {
      const double s = 1 / (1 + std::exp(-kQuickGelu * x));
      return s + kQuickGelu * x * s * (1 - s);
    }
  }
  return NAN;
}

Doubles gated(const Gated& a) {
  Doubles y;
  for (int64_t r = 0; r < a.rows; ++r) {
    for (int64_t c = 0; c < a.cols; ++c) {
      y.push_back(activation(a.activation, get(a.gate, r * a.gate_stride + c)) *
                  get(a.x, r * a.x_stride + c) * dropout_factor(a.dropout, r, c));
    }
  }
  return y;
}

GatedGradients gated_backward(const Gated& a, Elements dy) {
  GatedGradients gradients;
  for (int64_t r = 0; r < a.rows; ++r) {
    for (int64_t c = 0; c < a.cols; ++c) {
      const double upstream = get(dy, r * a.cols + c) * dropout_factor(a.dropout, r, c);
      const double gate = get(a.gate, r * a.gate_stride + c), x = get(a.x, r * a.x_stride + c);
      gradients.gate.push_back(upstream * x * activation_derivative(a.activation, gate));
      gradients.x.push_back(upstream * activation(a.activation, gate));
    }
  }
  return gradients;
}

void activate(Activation kind, Elements x, MutableElements y, int64_t rows, int64_t cols,
              const Dropout& dropout) {
  Doubles result;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) {
      result.push_back(activation(kind, get(x, r * cols + c)) * dropout_factor(dropout, r, c));
    }
  }
  store(result, y);
}

void activate_backward(Activation kind, Elements x, Elements dy, MutableElements dx, int64_t rows,
                       int64_t cols, const Dropout& dropout, Accumulate accumulate) {
  Doubles result;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) {
      const int64_t i = r * cols + c;
      result.push_back(activation_derivative(kind, get(x, i)) * get(dy, i) * dropout_factor(dropout, r, c));
    }
  }
  store(result, dx, accumulate);
}

void relu_backward(Elements y, Elements dy, float factor, MutableElements dx, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    store_element(dx, i, get(y, i) > 0 ? double{factor} * get(dy, i) : 0, Accumulate::no);
}

void gated(const Gated& arguments, MutableElements y) { store(gated(arguments), y); }

void gated_backward(const Gated& a, Elements dy, const GradientRows& d_gate, const GradientRows& d_x) {
  const GatedGradients gradients = gated_backward(a, dy);
  store(gradients.gate, a.cols, d_gate.data, d_gate.stride, d_gate.accumulate);
  store(gradients.x, a.cols, d_x.data, d_x.stride, d_x.accumulate);
}

}  // namespace qkv::kernels::reference
