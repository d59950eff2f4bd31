#pragma once
// Candidate continuations of a hypothesis.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "qkv/kernels/loss.h"
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

// The best tokens of a row that its candidates follow from, where no option needs the logits of all tokens.
struct BestTokensNeed {
  int64_t count = 0;
  std::vector<int32_t> forbidden;  // ascending
};

// For a row whose logits are in a device's memory. None: all logits are needed, as for sampling.
std::optional<BestTokensNeed> best_tokens_needed(const Hypotheses& hypotheses, int32_t row,
                                                 int64_t vocabulary);
// What candidates_of() returns, and the most likely tokens if the request asks for them. best: at least
// need.count tokens. None: tokens that are equally good are beyond them, so all logits are needed.
std::optional<RowStep> step_of_best(const Hypotheses& hypotheses, int32_t row, const BestTokensNeed& need,
                                    std::span<const kernels::ScoredToken> best, int64_t vocabulary);

// Greedy search and sampling choose tokens by logits, as transformers do. This differs from choosing by
// log-probability only under rules that depend on the sign of a score; under those that change scores, the
// model's log-probabilities are kept for the result.
bool needs_logits(const SearchOptions& options);

// The `count` most likely tokens, best first, ties by id.
std::vector<TokenProbability> most_likely(std::span<const float> log_probabilities, int count);

}  // namespace qkv::search
