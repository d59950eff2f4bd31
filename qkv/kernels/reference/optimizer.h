#pragma once
// Adam (Kingma and Ba 2015, algorithm 1), and sums over all gradients.

#include <cstdint>
#include <span>

#include "qkv/kernels/optimizer.h"
#include "qkv/kernels/reference/doubles.h"

namespace qkv::kernels::reference {

// One parameter's step, in place.
struct AdamState {
  Doubles value, first_moment, second_moment, average;
};
void adam(const AdamStep& step, std::span<const float> gradient, double average_decay, AdamState& state);

// The kernels of optimizer.h.
void adam(const AdamStep& step, std::span<const AdamSlot> slots, float average_decay);
double sum_of_squares(const float* x, int64_t count);
bool all_finite(const float* x, int64_t count);

}  // namespace qkv::kernels::reference
