#pragma once
// Constraints on the next token.

#include <cstdint>
#include <span>

#include "qkv/search/search.h"

namespace qkv::search {

// Applies options' repetition_penalty, no_repeat_ngram, suppress_tokens and bad_words to the scores of the
// next token, [vocabulary], logits or log-probabilities: forbidden tokens become -infinity. history: the
// start token and all tokens since. As transformers' processors of these names do.
void constrain(std::span<float> scores, std::span<const int32_t> history, const SearchOptions& options);

// Whether constrain() reads the history.
bool looks_back(const SearchOptions& options);

}  // namespace qkv::search
