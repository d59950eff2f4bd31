#pragma once
// The options' rules for the next token. All rules together, in this order, do what transformers' logits
// processors do. Ids outside the vocabulary are ignored.

#include <span>

#include "qkv/search/search.h"

namespace qkv::search {

// The rules that change scores without forbidding tokens: sequence_bias, repetition penalties, decay. scores:
// logits or log-probabilities, [vocabulary].
void change_scores(std::span<float> scores, const StepContext& context, const SearchOptions& options);
bool changes_scores(const SearchOptions& options);

// The rules that forbid or force tokens: n-grams, bad_words (an end token alone is none), min_new_tokens,
// forced_bos, suppress_tokens, begin_suppress_tokens, and options.constraints. The options must outlive them.
Constraints constraints_of(const SearchOptions& options);

}  // namespace qkv::search
