#pragma once
// The passes over all parameters that a training step ends with: the update rules of the optimizers.

#include <array>
#include <cstdint>
#include <span>

#include "qkv/kernels/backend/optimizer.h"
#include "qkv/tensor/tensor.h"

namespace qkv::kernels {

// One parameter with its gradient and the rule's state of it. All tensors are f32, contiguous and of one
// shape (but the state of adafactor()).
struct OptimizerSlot {
  Tensor value, gradient;
  std::array<Tensor, 3> state = {};  // in the order that the rule gives; undefined where it has none
  Tensor average = {};               // an exponential moving average of the values; undefined: none
  float learning_rate = 0;
  float weight_decay = 0;
  int64_t step = 1;  // of this parameter, counted from 1
};

// One pass over all slots, which lie on one device.
void adam(const AdamRule& rule, const OptimizerPass& pass, std::span<OptimizerSlot> slots);
void sgd(const SgdRule& rule, const OptimizerPass& pass, std::span<OptimizerSlot> slots);
void rmsprop(const RmspropRule& rule, const OptimizerPass& pass, std::span<OptimizerSlot> slots);
void adagrad(const AdagradRule& rule, const OptimizerPass& pass, std::span<OptimizerSlot> slots);
void adafactor(const AdafactorRule& rule, const OptimizerPass& pass, std::span<OptimizerSlot> slots);

}  // namespace qkv::kernels
