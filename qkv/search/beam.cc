#include "qkv/search/beam.h"

#include <algorithm>

#include "qkv/search/candidates.h"

namespace qkv::search {

size_t Beam::wanted() const {
  if (options_.beam == 1 && (request_.trace == nullptr || needs_logits(options_))) return 1;
  return (2 + options_.stop.size()) * static_cast<size_t>(options_.beam);
}

std::vector<Candidate> Beam::best_of(std::span<const RowStep> steps) const {
  std::vector<Candidate> candidates;
  for (const RowStep& step : steps)
    candidates.insert(candidates.end(), step.candidates.begin(), step.candidates.end());
  const size_t kept = std::min(wanted(), candidates.size());
  std::ranges::partial_sort(candidates, candidates.begin() + static_cast<std::ptrdiff_t>(kept), better);
  candidates.resize(kept);
  return candidates;
}

void Beam::finish(const Finished& hypothesis) {
  const auto place = std::upper_bound(finished_.begin(), finished_.end(), hypothesis,
                                      [](const Finished& a, const Finished& b) { return a.score > b.score; });
  finished_.insert(place, hypothesis);
  if (std::ssize(finished_) > options_.beam) finished_.pop_back();
}

bool Beam::can_improve() const {
  if (rows_.empty()) return false;
  if (std::ssize(finished_) < options_.beam) return true;
  if (options_.beam == 1 || options_.early_stopping == EarlyStopping::when_full) return false;
  // Upper bound of the final score: log-probabilities only decrease, a positive alpha penalises least at the
  // maximum length, and uncovered source tokens may still be covered.
  const bool longest = options_.early_stopping == EarlyStopping::exact && options_.length_penalty > 0;
  const int last = limit_ - (options_.forced_eos ? 0 : 1);
  return score(rows_.front().total, longest ? last : length_, {}) > finished_.back().score;
}

void Beam::record(const Candidate& candidate, TraceEntry::Fate fate) const {
  if (request_.trace == nullptr) return;
  const int64_t found = length_ - std::ssize(request_.prefix);
  const std::vector<float>& attended = rows_[static_cast<size_t>(candidate.row)].attended;
  request_.trace->steps.back().push_back(
      {.row = candidate.row,
       .id = candidate.id,
       .log_probability = candidate.log_probability,
       .total = candidate.total,
       .penalty = length_penalty(options_.length_penalty_type, options_.length_penalty, found),
       .coverage = coverage_penalty(options_.coverage_penalty, attended),
       .score = score(candidate.total, length_, attended),
       .fate = fate});
}

void Beam::advance(std::span<const RowStep> steps) {
  for (size_t r = 0; r < rows_.size(); ++r) attend(rows_[r], steps[r].attended);
  const std::vector<Candidate> candidates = best_of(steps);
  if (!candidates.empty()) {
    ++length_;
    if (request_.trace != nullptr) request_.trace->steps.emplace_back();
    std::vector<Row> next;
    int rank = 0;
    for (const Candidate& candidate : candidates) {
      const Row& row = rows_[static_cast<size_t>(candidate.row)];
      TraceEntry::Fate fate = TraceEntry::Fate::pruned;
      if (ends(candidate.id)) {
        if (rank < options_.beam) {
          finish(finished(row, candidate));
          fate = TraceEntry::Fate::finished;
        }
      } else if (std::ssize(next) < options_.beam) {
        next.push_back(continued(row, candidate));
        fate = TraceEntry::Fate::kept;
      }
      record(candidate, fate);
      ++rank;
    }
    rows_ = std::move(next);
    if (!can_improve()) rows_.clear();
    const bool greedy = options_.beam == 1;
    if (greedy &&
        !tell({sample_, candidates.front().id, candidates.front().log_probability, steps.front().top}))
      return cut_rows();
  }
  if (candidates.empty() || at_limit()) {
    if (options_.beam == 1 && !rows_.empty()) tell({sample_, special_.eos, 0});
    cut_rows();
  }
  if (rows_.empty() && options_.beam > 1) tell_best();
}

void Beam::cut_rows() {
  for (const Row& row : rows_) finish(truncated(row));
  rows_.clear();
}

void Beam::tell_best() const {
  const Hypothesis best = spell(finished_.front());
  for (size_t i = request_.prefix.size(); i < best.ids.size(); ++i) {
    if (!tell({sample_, best.ids[i], best.token_log_probabilities[i]})) return;
  }
}

NBest Beam::result() const {
  NBest result;
  for (const Finished& hypothesis : finished_) {
    if (std::ssize(result) == options_.nbest) break;
    result.push_back(spell(hypothesis));
  }
  return result;
}

}  // namespace qkv::search
