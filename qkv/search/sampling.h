#pragma once
// Sampling of the next token.

#include <cstdint>
#include <span>

#include "qkv/search/search.h"

namespace qkv::search {

// Turns logits [vocabulary] into probabilities: temperature, then top_k, top_p and min_p, in this order, each
// applied to the tokens that the previous one kept, as transformers do. At least one token remains, and none
// whose logit is -infinity. False if all logits are -infinity.
bool shape_distribution(std::span<float> logits, const Sampling& options);

// The token whose interval of the cumulative distribution, in order of ids, contains `number` from [0, 1).
int32_t pick(std::span<const float> probabilities, double number);

// The random number in [0, 1) for one token: a pure function of all four arguments.
double random_number(uint64_t seed, uint64_t key, int32_t sample, int position);

}  // namespace qkv::search
