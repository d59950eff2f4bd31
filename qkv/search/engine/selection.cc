#include "qkv/search/engine/selection.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "qkv/base/parallel.h"
#include "qkv/kernels/loss.h"
#include "qkv/search/candidates.h"

namespace qkv::search {
namespace {

bool is_forced(const RunningRow& one) { return one.hypotheses.forced() != nullptr; }
// Of the prefix and the first token after it.
bool is_watched(const RunningRow& one) {
  const Request& request = one.hypotheses.request();
  return request.on_prefix != nullptr && one.row == 0 &&
         one.hypotheses.length() <= std::ssize(request.prefix);
}

// None if a row needs all logits.
std::optional<std::vector<RowResult>> select_best(const Tensor& logits, std::span<const RunningRow> rows,
                                                  int64_t vocabulary) {
  std::vector<BestTokensNeed> needs;
  int64_t count = 1;
  for (const RunningRow& one : rows) {
    BestTokensNeed& need = needs.emplace_back();
    if (is_watched(one)) return std::nullopt;
    if (is_forced(one)) continue;
    auto found = best_tokens_needed(one.hypotheses, one.row, vocabulary);
    if (!found) return std::nullopt;
    need = std::move(*found);
    count = std::max(count, need.count);
  }
  const auto size = static_cast<size_t>(count);
  const std::vector<kernels::ScoredToken> best = kernels::best_tokens(logits, count);
  std::vector<RowResult> results(rows.size());
  for (size_t r = 0; r < rows.size(); ++r) {
    if (is_forced(rows[r])) continue;
    try {
      auto step = step_of_best(rows[r].hypotheses, rows[r].row, needs[r],
                               std::span(best).subspan(r * size, size), vocabulary);
      if (!step) return std::nullopt;
      results[r].step = std::move(*step);
    } catch (...) {
      results[r].error = std::current_exception();
    }
  }
  return results;
}

std::vector<RowResult> select_of_all(Tensor logits, std::span<const RunningRow> rows, int64_t vocabulary) {
  const auto by_logits = [](const RunningRow& one) { return needs_logits(one.hypotheses.options()); };
  std::vector<RowVocabulary> vocabularies;
  for (const RunningRow& one : rows) vocabularies.push_back(one.vocabulary);
  StepScores scores =
      step_scores(std::move(logits), vocabularies, vocabulary, std::ranges::any_of(rows, by_logits));
  std::vector<RowResult> results(rows.size());
  // Waking a thread pays off from about ten microseconds of work.
  parallel_for(std::ssize(rows), std::max<int64_t>(1, 32768 / vocabulary), [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
      const RunningRow& one = rows[static_cast<size_t>(r)];
      RowResult& result = results[static_cast<size_t>(r)];
      const bool watched = is_watched(one);
      if (is_forced(one) && !watched) continue;
      const Tensor log_probabilities = scores.log_probabilities.slice_rows(r, 1);
      try {
        if (watched) one.hypotheses.request().on_prefix(one.hypotheses.length(), log_probabilities.values());
        if (is_forced(one)) continue;
        result.step.top = most_likely(log_probabilities.values(), one.hypotheses.request().top);
        result.step.candidates = candidates_of(
            one.hypotheses, one.row,
            {log_probabilities, by_logits(one) ? scores.logits.slice_rows(r, 1) : log_probabilities});
      } catch (...) {
        result.error = std::current_exception();
      }
    }
  });
  return results;
}

}  // namespace

std::vector<RowResult> select_candidates(Tensor logits, std::span<const RunningRow> rows,
                                         int64_t vocabulary) {
  if (logits.device() == Device::cpu) return select_of_all(std::move(logits), rows, vocabulary);
  if (auto selected = select_best(logits, rows, vocabulary)) return std::move(*selected);
  return select_of_all(to_host(logits), rows, vocabulary);
}

}  // namespace qkv::search
