#include "qkv/kernels/reference/optimizer.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "qkv/kernels/reference/doubles.h"

namespace qkv::kernels::reference {
namespace {

// An element of a state, widened; assignment stores the new value.
class Element {
 public:
  Element(float* values, int64_t at) : address_(values + at) {}
  operator double() const { return *address_; }  // NOLINT(google-explicit-constructor)
  Element& operator=(double value) {
    *address_ = static_cast<float>(value);
    return *this;
  }

 private:
  float* address_;
};

// w <- w - update(slot, element, g), where g includes coupled weight decay; then the average.
template <class Update>
void for_elements(const OptimizerPass& pass, std::span<const ParameterUpdate> slots, bool decoupled,
                  const Update& update) {
  for (const ParameterUpdate& slot : slots) {
    for (int64_t i = 0; i < slot.count(); ++i) {
      Element value(slot.value, i);
      const double w = value, decay = slot.weight_decay;
      double g = double{pass.gradient_factor} * double{slot.gradient[i]};
      if (!decoupled) g += decay * w;
      const double kept = decoupled ? (1 - double{slot.learning_rate} * decay) * w : w;
      value = kept - update(slot, i, g);
      if (slot.average == nullptr) continue;
      Element average(slot.average, i);
      average = average + (1 - double{pass.average_decay}) * (value - average);
    }
  }
}

}  // namespace

void adam(const AdamRule& rule, const OptimizerPass& pass, std::span<const ParameterUpdate> slots) {
  const double beta1 = rule.beta1, beta2 = rule.beta2;
  for_elements(pass, slots, rule.decoupled, [&](const ParameterUpdate& slot, int64_t i, double g) {
    const double t = static_cast<double>(slot.step);
    const double m = beta1 * Element(slot.state[0], i) + (1 - beta1) * g;
    double v = beta2 * Element(slot.state[1], i) + (1 - beta2) * g * g;
    Element(slot.state[0], i) = m;
    Element(slot.state[1], i) = v;
    if (rule.amsgrad) {
      v = std::max<double>(v, Element(slot.state[2], i));
      Element(slot.state[2], i) = v;
    }
    const double corrected_m = m / (1 - std::pow(beta1, t)), corrected_v = v / (1 - std::pow(beta2, t));
    return double{slot.learning_rate} * corrected_m / (std::sqrt(corrected_v) + double{rule.epsilon});
  });
}

void sgd(const SgdRule& rule, const OptimizerPass& pass, std::span<const ParameterUpdate> slots) {
  const double momentum = rule.momentum, dampening = rule.dampening;
  for_elements(pass, slots, false, [&](const ParameterUpdate& slot, int64_t i, double g) {
    const double rate = slot.learning_rate;
    if (rule.momentum == 0) return rate * g;
    Element buffer(slot.state[0], i);
    const double b = slot.step == 1 ? g : momentum * buffer + (1 - dampening) * g;
    buffer = b;
    return rate * (rule.nesterov ? g + momentum * b : b);
  });
}

void rmsprop(const RmspropRule& rule, const OptimizerPass& pass, std::span<const ParameterUpdate> slots) {
  const double alpha = rule.alpha;
  for_elements(pass, slots, false, [&](const ParameterUpdate& slot, int64_t i, double g) {
    double v = alpha * Element(slot.state[0], i) + (1 - alpha) * g * g;
    Element(slot.state[0], i) = v;
    if (rule.centered) {
      const double a = alpha * Element(slot.state[1], i) + (1 - alpha) * g;
      Element(slot.state[1], i) = a;
      v = std::max(v - a * a, 0.0);
    }
    double update = g / (std::sqrt(v) + double{rule.epsilon});
    if (rule.momentum != 0) {
      update += double{rule.momentum} * Element(slot.state[2], i);
      Element(slot.state[2], i) = update;
    }
    return double{slot.learning_rate} * update;
  });
}

void adagrad(const AdagradRule& rule, const OptimizerPass& pass, std::span<const ParameterUpdate> slots) {
  for_elements(pass, slots, false, [&](const ParameterUpdate& slot, int64_t i, double g) {
    const double v = Element(slot.state[0], i) + g * g;
    Element(slot.state[0], i) = v;
    const double rate =
        double{slot.learning_rate} / (1 + static_cast<double>(slot.step - 1) * double{rule.lr_decay});
    return rate * g / (std::sqrt(v) + double{rule.epsilon});
  });
}

void adafactor(const AdafactorRule& rule, const OptimizerPass& pass, std::span<const ParameterUpdate> slots) {
  for (const ParameterUpdate& slot : slots) {
    const int64_t count = slot.count();
    const bool matrix = slot.matrix;
    const int64_t columns = slot.cols, rows = slot.rows;
    const double t = static_cast<double>(slot.step), share = std::pow(t, double{rule.beta2_decay});
    const double smallest = double{rule.epsilon1} * double{rule.epsilon1};
    const auto gradient = [&](int64_t i) { return double{pass.gradient_factor} * slot.gradient[i]; };
    const auto move = [share](Element element, double mean) { element = element + share * (mean - element); };

    std::vector<double> update(static_cast<size_t>(count));
    double weights = 0, updates = 0;
    for (int64_t first = 0; first < count; first += rows * columns) {
      const int64_t matrix_index = first / (rows * columns);
      double mean_row = 0;
      if (matrix) {
        for (int64_t row = 0; row < rows; ++row) {
          double sum = 0;
          for (int64_t i = 0; i < columns; ++i) sum += std::pow(gradient(first + row * columns + i), 2);
          const Element r(slot.state[0], matrix_index * rows + row);
          move(r, sum / static_cast<double>(columns));
          mean_row += r / static_cast<double>(rows);
        }
        for (int64_t column = 0; column < columns; ++column) {
          double sum = 0;
          for (int64_t i = 0; i < rows; ++i) sum += std::pow(gradient(first + i * columns + column), 2);
          move(Element(slot.state[1], matrix_index * columns + column), sum / static_cast<double>(rows));
        }
      }
      for (int64_t i = 0; i < rows * columns; ++i) {
        const int64_t at = first + i;
        double v = 0;
        if (matrix) {
          v = Element(slot.state[0], matrix_index * rows + i / columns) *
              Element(slot.state[1], matrix_index * columns + i % columns) /
              std::max(mean_row, double{rule.epsilon1});
        } else {
          move(Element(slot.state[0], at), std::pow(gradient(at), 2));
          v = Element(slot.state[0], at);
        }
        const double u = gradient(at) / std::sqrt(std::max(v, smallest));
        update[static_cast<size_t>(at)] = u;
        updates += u * u;
        weights += std::pow(double{slot.value[at]}, 2);
      }
    }
    const double n = static_cast<double>(count), rate = slot.learning_rate;
    const double relative = std::max(double{rule.epsilon2}, std::sqrt(weights / n));
    const double clip = std::max(1.0, std::sqrt(updates / n) / double{rule.clip_threshold});
    const double step_size = relative * std::min(rate, 1 / std::sqrt(t)) / clip;
    for (int64_t i = 0; i < count; ++i) {
      Element value(slot.value, i);
      value = (1 - rate * double{slot.weight_decay}) * value - step_size * update[static_cast<size_t>(i)];
      if (slot.average == nullptr) continue;
      Element average(slot.average, i);
      average = average + (1 - double{pass.average_decay}) * (value - average);
    }
  }
}

void sum_of_squares(const float* x, int64_t count, double* sum) {
  *sum = 0;
  for (int64_t i = 0; i < count; ++i) *sum += double{x[i]} * double{x[i]};
}

void all_finite(Elements x, int64_t count, int32_t* finite) {
  *finite = 1;
  for (int64_t i = 0; i < count; ++i) {
    if (!std::isfinite(get(x, i))) *finite = 0;
  }
}

}  // namespace qkv::kernels::reference
