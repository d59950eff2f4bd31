#include "qkv/kernels/optimizer.h"

#include <vector>

#include "qkv/kernels/dispatch.h"

namespace qkv::kernels {
namespace {

ParameterUpdate update_of(const char* rule, const Tensor& first, OptimizerSlot& slot) {
  backend_of(rule, first, slot.value, slot.gradient, slot.state[0], slot.state[1], slot.state[2],
             slot.average);
  ParameterUpdate update{.value = address(slot.value),
                         .gradient = address(slot.gradient),
                         .average = address(slot.average),
                         .matrix = slot.value.rank() >= 2,
                         .learning_rate = slot.learning_rate,
                         .weight_decay = slot.weight_decay,
                         .step = slot.step};
  for (size_t i = 0; i < update.state.size(); ++i) update.state[i] = address(slot.state[i]);
  update.cols = slot.value.numel();
  if (!update.matrix) return update;
  update.rows = slot.value.dim(-2);
  update.cols = slot.value.dim(-1);
  const int64_t matrix = update.rows * update.cols;
  update.matrices = matrix == 0 ? 0 : slot.value.numel() / matrix;
  return update;
}

// Value and gradient are read, the value is written, state and average are read and written.
void count_update(const OptimizerSlot& slot) {
  count_elements(slot.value.numel() * (slot.average.defined() ? 5 : 3));
  for (const Tensor& state : slot.state) count_elements(state.defined() ? 2 * state.numel() : 0);
}

// Calls call(backend, updates) for slots on one device.
template <class Call>
void for_updates(const char* rule, std::span<OptimizerSlot> slots, const Call& call) {
  if (slots.empty()) return;
  for (const OptimizerSlot& slot : slots) count_update(slot);
  const Tensor& first = slots.front().value;
  std::vector<ParameterUpdate> updates;
  updates.reserve(slots.size());
  for (OptimizerSlot& slot : slots) updates.push_back(update_of(rule, first, slot));
  call(backend(first.device()), std::span<const ParameterUpdate>(updates));
}

}  // namespace

void adam(const AdamRule& rule, const OptimizerPass& pass, std::span<OptimizerSlot> slots) {
  for_updates("adam", slots, [&](const Backend& device, auto updates) { device.adam(rule, pass, updates); });
}

void sgd(const SgdRule& rule, const OptimizerPass& pass, std::span<OptimizerSlot> slots) {
  for_updates("sgd", slots, [&](const Backend& device, auto updates) { device.sgd(rule, pass, updates); });
}

void rmsprop(const RmspropRule& rule, const OptimizerPass& pass, std::span<OptimizerSlot> slots) {
  for_updates("rmsprop", slots,
              [&](const Backend& device, auto updates) { device.rmsprop(rule, pass, updates); });
}

void adagrad(const AdagradRule& rule, const OptimizerPass& pass, std::span<OptimizerSlot> slots) {
  for_updates("adagrad", slots,
              [&](const Backend& device, auto updates) { device.adagrad(rule, pass, updates); });
}

void adafactor(const AdafactorRule& rule, const OptimizerPass& pass, std::span<OptimizerSlot> slots) {
  for_updates("adafactor", slots,
              [&](const Backend& device, auto updates) { device.adafactor(rule, pass, updates); });
}

}  // namespace qkv::kernels
