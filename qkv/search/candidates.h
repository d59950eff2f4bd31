#pragma once
// How a hypothesis may go on.

#include <cstdint>
#include <span>
#include <vector>

#include "qkv/search/hypotheses.h"

namespace qkv::search {

// A step's numbers for one row, [vocabulary] each. `scores` may be changed; it is the logits where
// needs_logits() says so, else the log-probabilities.
struct RowNumbers {
  std::span<const float> log_probabilities;
  std::span<float> scores;
};

// The continuations of a row of `hypotheses` that its search can have use for, best first (where tokens are
// drawn, by sample). Throws NumericError for a number that is none.
std::vector<Candidate> candidates_of(const Hypotheses& hypotheses, int32_t row, const RowNumbers& numbers);

// Where hypotheses are searched for one by one, tokens are chosen by logits, as transformers do; a repetition
// penalty is the one thing that tells them from log-probabilities.
bool needs_logits(const SearchOptions& options);

}  // namespace qkv::search
