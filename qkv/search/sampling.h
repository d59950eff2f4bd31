#pragma once
// Drawing the next token.

#include <cstdint>
#include <span>

#include "qkv/search/search.h"

namespace qkv::search {

// Turns logits [vocabulary] into the probabilities that options leave: temperature, then top_k, top_p and
// min_p, in this order, each over what the one before has left, as transformers do. At least one token
// remains. False where all logits are -infinity.
bool shape_distribution(std::span<float> logits, const Sampling& options);

// The token whose part of [0, 1) holds `number`, the probabilities being laid end to end in the order of ids.
int32_t pick(std::span<const float> probabilities, double number);

// The number in [0, 1) for a token: a pure function of all four.
double random_number(uint64_t seed, uint64_t key, int32_t sample, int position);

}  // namespace qkv::search
