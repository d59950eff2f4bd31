#include "qkv/search/candidates.h"

#include <algorithm>
#include <cmath>

#include "qkv/base/error.h"
#include "qkv/kernels/loss.h"
#include "qkv/search/sampling.h"

namespace qkv::search {
namespace {

// Writes the best ids by score + total, best first, as many as fit into `best`; returns their number. The
// order is that of the rounded sum, in which different scores may tie.
size_t best_of_row(std::span<const float> scores, float total, int32_t row, std::span<Candidate> best) {
  constexpr size_t kBlock = 64;
  size_t found = 0;
  float worst = kImpossible;  // of the best so far, once `best` is full
  const auto take = [&](size_t id) {
    const float sum = total + scores[id];
    if (!(sum > worst)) return;
    size_t place = found < best.size() ? found++ : best.size() - 1;
    for (; place > 0 && best[place - 1].total < sum; --place) best[place] = best[place - 1];
    best[place] = {sum, scores[id], row, static_cast<int32_t>(id)};
    if (found == best.size()) worst = best.back().total;
  };
  size_t id = 0;
  for (; id + kBlock <= scores.size(); id += kBlock) {
    // Most blocks contain no better score; the vector loop detects that without a branch per token.
    int any = 0;
    for (size_t i = id; i < id + kBlock; ++i) any |= total + scores[i] > worst ? 1 : 0;
    if (any == 0) continue;
    for (size_t i = id; i < id + kBlock; ++i) take(i);
  }
  for (; id < scores.size(); ++id) take(id);
  return found;
}

// A +infinity among the logits becomes NaN as well.
[[noreturn]] void throw_not_finite(const Hypotheses& hypotheses, int32_t row) {
  throw NumericError(concat("search: expected finite logits, found NaN or infinity behind ",
                            hypotheses.length(), " tokens, hypothesis ", row));
}

void require_numbers(std::span<const float> log_probabilities, const Hypotheses& hypotheses, int32_t row) {
  // Without an early exit the loop is vectorised.
  int none = 0;
  for (const float x : log_probabilities) none |= std::isnan(x) ? 1 : 0;
  if (none != 0) throw_not_finite(hypotheses, row);
}

// Applies the constraints to the scores of a row. `change`: also the rules that change scores.
void apply_rules(const Hypotheses& hypotheses, int32_t row, std::span<float> scores, bool change) {
  const SearchOptions& options = hypotheses.options();
  const std::vector<int32_t> history = hypotheses.history(row);
  const StepContext context{.source = hypotheses.request().source,
                            .history = history,
                            .new_tokens = hypotheses.length() - std::ssize(hypotheses.request().prefix),
                            .ends = hypotheses.ends()};
  if (change) change_scores(scores, context, options);
  NextTokens next(scores);
  for (const auto& constraint : hypotheses.constraints()) constraint->apply(context, next);
}

}  // namespace

bool needs_logits(const SearchOptions& options) {
  const bool may_force = options.rules.forced_bos || !options.constraints.empty();
  return options.beam == 1 && (changes_scores(options) || may_force);
}

std::vector<Candidate> candidates_of(const Hypotheses& hypotheses, int32_t row, const RowScores& step) {
  const SearchOptions& options = hypotheses.options();
  const Hypotheses::Row& parent = hypotheses.rows()[static_cast<size_t>(row)];
  const Tensor& all = step.log_probabilities;
  const std::span<const float> log_probabilities = all.values();
  require_numbers(log_probabilities, hypotheses, row);

  // Sampling overwrites the scores, but the log-probabilities are still needed.
  const bool copied = options.sampling && step.scores.data() == all.data();
  Tensor shaped = copied ? step.scores.clone() : step.scores;
  const std::span<float> scores = shaped.values();
  if (changes_scores(options) || !hypotheses.constraints().empty())
    apply_rules(hypotheses, row, scores, true);

  std::vector<Candidate> candidates;
  const auto with_id = [&](int32_t id) {
    const float log_probability = log_probabilities[static_cast<size_t>(id)];
    return Candidate{parent.total + log_probability, log_probability, row, id};
  };
  if (options.sampling) {
    if (!shape_distribution(scores, *options.sampling)) return {};
    for (size_t i = 0; i < hypotheses.wanted(); ++i) {
      const auto sample = parent.sample + static_cast<int32_t>(i);
      candidates.push_back(
          with_id(pick(scores, random_number(options.sampling->seed, hypotheses.request().key, sample,
                                             hypotheses.length()))));
    }
    return candidates;
  }
  const bool by_logits = needs_logits(options);
  if (options.renormalize && !by_logits) {
    kernels::log_softmax(shaped, {}, shaped);
  }
  candidates.resize(hypotheses.wanted());
  candidates.resize(best_of_row(scores, by_logits ? 0 : parent.total, row, candidates));
  if (by_logits) {
    for (Candidate& candidate : candidates) candidate = with_id(candidate.id);
  }
  return candidates;
}

std::optional<BestTokensNeed> best_tokens_needed(const Hypotheses& hypotheses, int32_t row,
                                                 int64_t vocabulary) {
  constexpr int64_t kMost = 256;  // beyond, copying all logits is as fast
  const SearchOptions& options = hypotheses.options();
  if (options.sampling || options.renormalize || options.shortlist || changes_scores(options) ||
      needs_logits(options))
    return std::nullopt;
  BestTokensNeed need;
  if (!hypotheses.constraints().empty()) {
    std::vector<float> scores(static_cast<size_t>(vocabulary));
    apply_rules(hypotheses, row, scores, false);
    for (size_t id = 0; id < scores.size(); ++id) {
      if (scores[id] == kImpossible) need.forbidden.push_back(static_cast<int32_t>(id));
      if (std::ssize(need.forbidden) > kMost) return std::nullopt;
    }
  }
  // A few more, as ties beyond the last token are unknown.
  need.count = std::max<int64_t>(static_cast<int64_t>(hypotheses.wanted()) + std::ssize(need.forbidden) + 4,
                                 hypotheses.request().top);
  if (need.count > kMost) return std::nullopt;
  need.count = std::min(need.count, vocabulary);
  return need;
}

std::optional<RowStep> step_of_best(const Hypotheses& hypotheses, int32_t row, const BestTokensNeed& need,
                                    std::span<const kernels::ScoredToken> best, int64_t vocabulary) {
  if (std::isnan(best.front().log_probability)) throw_not_finite(hypotheses, row);
  const float total = hypotheses.rows()[static_cast<size_t>(row)].total;
  RowStep step;
  for (const kernels::ScoredToken& one : best) {
    const float sum = total + one.log_probability;
    if (sum == kImpossible || std::ranges::binary_search(need.forbidden, one.id)) continue;
    step.candidates.push_back({sum, one.log_probability, row, one.id});
  }
  // Different log-probabilities may have the same sum, so the order changes.
  std::ranges::sort(step.candidates, better);
  if (step.candidates.size() > hypotheses.wanted()) step.candidates.resize(hypotheses.wanted());
  const bool all = std::ssize(best) == vocabulary;
  const float beyond = total + best.back().log_probability;
  if (!all && (step.candidates.size() < hypotheses.wanted() || !(step.candidates.back().total > beyond)))
    return std::nullopt;
  for (int i = 0; i < std::min<int>(hypotheses.request().top, static_cast<int>(best.size())); ++i) {
    const kernels::ScoredToken& one = best[static_cast<size_t>(i)];
    step.top.push_back({one.id, one.log_probability});
  }
  return step;
}

std::vector<TokenProbability> most_likely(std::span<const float> log_probabilities, int count) {
  if (count <= 0) return {};
  const auto better = [](const TokenProbability& a, const TokenProbability& b) {
    return a.log_probability != b.log_probability ? a.log_probability > b.log_probability : a.id < b.id;
  };
  std::vector<TokenProbability> top;
  for (size_t id = 0; id < log_probabilities.size(); ++id) {
    const TokenProbability one{static_cast<int32_t>(id), log_probabilities[id]};
    if (std::ssize(top) == count && !better(one, top.back())) continue;
    if (std::ssize(top) == count) top.pop_back();
    top.insert(std::ranges::upper_bound(top, one, better), one);
  }
  return top;
}

}  // namespace qkv::search
