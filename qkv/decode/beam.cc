#include "qkv/decode/beam.h"

#include <algorithm>

namespace qkv::decode {

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
  // Log-probabilities only fall; a positive alpha forgives most at the greatest length.
  const bool longest = options_.early_stopping == EarlyStopping::exact && options_.length_penalty > 0;
  return score(rows_.front().total, longest ? limit_ : length_) > finished_.back().score;
}

void Beam::record(const Candidate& candidate, TraceEntry::Fate fate) const {
  if (request_.trace == nullptr) return;
  const int64_t found = length_ - static_cast<int64_t>(request_.prefix.size());
  request_.trace->steps.back().push_back(
      {.row = candidate.row,
       .id = candidate.id,
       .log_probability = candidate.log_probability,
       .total = candidate.total,
       .penalty = length_penalty(options_.form, options_.length_penalty, found),
       .score = score(candidate.total, length_),
       .fate = fate});
}

void Beam::advance(std::span<const Candidate> candidates) {
  std::vector<Row> next;
  const bool stuck = candidates.empty();
  if (!stuck) {
    ++length_;
    if (request_.trace != nullptr) request_.trace->steps.emplace_back();
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
        next.push_back({.total = candidate.total,
                        .parent = candidate.row,
                        .id = candidate.id,
                        .node = add_token(row.node, candidate.id, candidate.log_probability),
                        .sample = 0});
        fate = TraceEntry::Fate::kept;
      }
      record(candidate, fate);
      ++rank;
    }
    rows_ = std::move(next);
    if (!can_improve()) rows_.clear();
  }
  if (stuck || at_limit()) {
    for (const Row& row : rows_) finish(cut_off(row));
    rows_.clear();
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

}  // namespace qkv::decode
