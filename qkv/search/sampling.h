#pragma once
// Sampling of the next token.

#include <cstdint>
#include <span>

#include "qkv/search/search.h"

namespace qkv::search {

// Turns logits [vocabulary] into the probabilities to sample from: temperature, then top_k, top_p and min_p,
// in this order, each over what the one before has kept, as transformers do. At least one token remains, and
// none whose logit is -infinity. False where all logits are -infinity.
bool shape_distribution(std::span<float> logits, const Sampling& options);

// The token whose interval of [0, 1) holds `number`, where the probabilities are laid end to end by id.
int32_t pick(std::span<const float> probabilities, double number);

// The random number in [0, 1) of a token: a pure function of all four.
double random_number(uint64_t seed, uint64_t key, int32_t sample, int position);

}  // namespace qkv::search
