#pragma once
// Constraints on the next token.

#include <cstdint>
#include <span>

#include "qkv/search/search.h"

namespace qkv::search {

// What constrain() reads besides the scores.
struct StepContext {
  Ids source = {};  // of the encoder, or the prompt
  Ids history =
      {};  // the start token or the prompt, and all tokens after it; may be empty unless looks_back()
  int64_t length = 0;      // the number of tokens in the history
  int64_t new_tokens = 0;  // of them, after the prefix
  Ids ends = {};           // the end tokens
};

// Applies the options' rules to the scores of the next token, [vocabulary], logits or log-probabilities, as
// transformers' logits processors do, in their order: sequence_bias, repetition penalties, n-grams, bad_words
// (an end token alone is none), min_new_tokens, forced_bos, decay, suppress_tokens, begin_suppress_tokens.
// Forbidden tokens get -infinity; ids outside the vocabulary are ignored.
void constrain(std::span<float> scores, const StepContext& context, const SearchOptions& options);

// Whether constrain() reads the history.
bool looks_back(const SearchOptions& options);

}  // namespace qkv::search
