#pragma once
// The passes over all parameters that a training step ends with.

#include <cstdint>
#include <span>

namespace qkv::kernels {

// Adam (Kingma and Ba 2015, algorithm 1), with decoupled weight decay (Loshchilov and Hutter 2019).
struct AdamStep {
  float learning_rate = 0;
  float beta1 = 0.9f, beta2 = 0.98f, epsilon = 1e-9f;
  float weight_decay = 0;
  float gradient_factor = 1;  // multiplies the gradient first: clipping and averaging
  int64_t step = 1;           // counts from 1, for the bias corrections
};

// One parameter's numbers, all [count].
struct AdamSlot {
  float* value = nullptr;
  const float* gradient = nullptr;
  float* first_moment = nullptr;
  float* second_moment = nullptr;
  float* average = nullptr;  // the exponential moving average of the values, or null
  int64_t count = 0;
};

// One pass over all slots. average <- average + (1 - average_decay) * (value - average).
void adam(const AdamStep& step, std::span<const AdamSlot> slots, float average_decay);

// The sum of squares in double precision, in an order that depends on the count only.
double sum_of_squares(const float* x, int64_t count);

// Whether every element is a finite number.
bool all_finite(const float* x, int64_t count);

}  // namespace qkv::kernels
