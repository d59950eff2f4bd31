#pragma once
// Routing of tokens to experts. Computed in double precision on the CPU and the reference device.

#include <cstdint>

#include "qkv/kernels/kinds.h"
#include "qkv/kernels/router_rule.h"

namespace qkv::kernels {

// chosen[t]: the experts of token t, best first, the lower one first among equals; NaN is less than any
// number.
struct ExpertChoice {
  RouterRule rule;
  const float* logits = nullptr;      // [tokens, experts]
  const float* correction = nullptr;  // [experts], or null
  int64_t tokens = 0;
  int32_t* chosen = nullptr;  // [tokens, per_token]
};

// weights[t, r]: that of expert chosen[t, r].
struct ExpertWeights {
  RouterRule rule;
  const float* logits = nullptr;    // [tokens, experts]
  const int32_t* chosen = nullptr;  // [tokens, per_token]
  int64_t tokens = 0;
  float* weights = nullptr;  // [tokens, per_token]
};

// d_logits (+)= the gradient of the logits. The choice has none.
struct ExpertWeightsBackward {
  RouterRule rule;
  const float* logits = nullptr;
  const int32_t* chosen = nullptr;
  int64_t tokens = 0;
  const float* d_weights = nullptr;  // [tokens, per_token]
  float* d_logits = nullptr;         // [tokens, experts]
  Accumulate accumulate = Accumulate::no;
};

}  // namespace qkv::kernels
