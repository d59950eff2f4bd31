#pragma once
// The continuations of a hypothesis.

#include <cstdint>
#include <span>
#include <vector>

#include "qkv/search/hypotheses.h"

namespace qkv::search {

// A step's result for one row, [vocabulary] each. `scores` may be overwritten: the logits where
// needs_logits() holds, else the log-probabilities.
struct RowScores {
  std::span<const float> log_probabilities;
  std::span<float> scores;
};

// The continuations of a row of `hypotheses` that its search can use, best first (with sampling: by sample).
// Throws NumericError for a log-probability that is NaN.
std::vector<Candidate> candidates_of(const Hypotheses& hypotheses, int32_t row, const RowScores& step);

// Greedy search and sampling choose tokens by logits, as transformers do, which differs from choosing by
// log-probabilities only with a repetition penalty.
bool needs_logits(const SearchOptions& options);

}  // namespace qkv::search
