#include "qkv/kernels/reference/optimizer.h"

#include <cmath>

namespace qkv::kernels::reference {

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

void adam(const AdamStep& step, std::span<const AdamSlot> slots, float average_decay) {
  for (const AdamSlot& slot : slots) {
    const auto doubles = [&](const float* x) {
      return x == nullptr ? Doubles() : Doubles(x, x + slot.count);
    };
    AdamState state{doubles(slot.value), doubles(slot.first_moment), doubles(slot.second_moment),
                    doubles(slot.average)};
    if (slot.average == nullptr) state.average.resize(state.value.size());
    adam(step, {slot.gradient, static_cast<size_t>(slot.count)}, double{average_decay}, state);
    store(state.value, slot.value);
    store(state.first_moment, slot.first_moment);
    store(state.second_moment, slot.second_moment);
    store(state.average, slot.average);
  }
}

double sum_of_squares(const float* x, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += double{x[i]} * double{x[i]};
  return sum;
}

bool all_finite(const float* x, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    if (!std::isfinite(x[i])) return false;
  }
  return true;
}

}  // namespace qkv::kernels::reference
