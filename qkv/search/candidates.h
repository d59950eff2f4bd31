#pragma once
// Candidate continuations of a hypothesis.

#include <cstdint>
#include <span>
#include <vector>

#include "qkv/search/hypotheses.h"

namespace qkv::search {

// One step's result for one row, each [1, vocabulary]. `scores` may be overwritten; it holds logits if
// needs_logits(), log-probabilities otherwise.
struct RowScores {
  Tensor log_probabilities;
  Tensor scores;
};

// The continuations of row `row` that the search can use, best first (when sampling: by sample). Throws
// NumericError for a NaN log-probability.
std::vector<Candidate> candidates_of(const Hypotheses& hypotheses, int32_t row, const RowScores& step);

// Greedy search and sampling choose tokens by logits, as transformers do. This differs from choosing by
// log-probability only under rules that depend on the sign of a score; under those that change scores, the
// model's log-probabilities are kept for the result.
bool needs_logits(const SearchOptions& options);

// The `count` most likely tokens, best first, ties by id.
std::vector<TokenProbability> most_likely(std::span<const float> log_probabilities, int count);

}  // namespace qkv::search
