#pragma once
// Constraints on the next token.

#include <cstdint>
#include <span>

#include "qkv/search/search.h"

namespace qkv::search {

// Applies repetition_penalty, no_repeat_ngram, suppress_tokens and bad_words to the scores of the next token,
// [vocabulary], logits or log-probabilities, as transformers' logits processors of the same names do.
// Forbidden tokens get -infinity. history: the start token and all tokens after it.
void constrain(std::span<float> scores, std::span<const int32_t> history, const SearchOptions& options);

// Forbids one token; an id outside the vocabulary is ignored.
void forbid(std::span<float> scores, int32_t id);

// Whether constrain() reads the history.
bool looks_back(const SearchOptions& options);

}  // namespace qkv::search
