#pragma once
// The update rules of the optimizers: passes over all parameters at the end of a training step.

#include <array>
#include <cstdint>
#include <span>

#include "qkv/kernels/backend/optimizer.h"
#include "qkv/tensor/tensor.h"

namespace qkv::kernels {

// A parameter with its gradient and the rule's state. All tensors are f32, contiguous and of one shape
// (except adafactor()'s state).
struct OptimizerSlot {
  Tensor value, gradient;
  std::array<Tensor, 3> state = {};  // in the rule's order; undefined if unused
  Tensor average = {};               // an exponential moving average of the values; undefined: none
  float learning_rate = 0;
  float weight_decay = 0;
  int64_t step = 1;  // of this parameter, from 1
};

// One pass over all slots, which must be on one device.
void adam(const AdamRule& rule, const OptimizerPass& pass, std::span<OptimizerSlot> slots);
void sgd(const SgdRule& rule, const OptimizerPass& pass, std::span<OptimizerSlot> slots);
void rmsprop(const RmspropRule& rule, const OptimizerPass& pass, std::span<OptimizerSlot> slots);
void adagrad(const AdagradRule& rule, const OptimizerPass& pass, std::span<OptimizerSlot> slots);
void adafactor(const AdafactorRule& rule, const OptimizerPass& pass, std::span<OptimizerSlot> slots);

}  // namespace qkv::kernels
