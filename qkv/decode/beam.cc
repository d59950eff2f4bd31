#include "qkv/decode/beam.h"

#include <algorithm>

namespace qkv::decode {

Beam::Beam(const SearchOptions& options, int32_t eos, int limit)
    : options_(options), eos_(eos), limit_(limit), rows_(1) {}

// In single precision, because transformers' scores are.
float Beam::score(float total, int length) const {
  return total / static_cast<float>(length_penalty(options_.form, options_.length_penalty, length));
}

void Beam::finish(const Finished& hypothesis) {
  const auto place = std::upper_bound(finished_.begin(), finished_.end(), hypothesis,
                                      [](const Finished& a, const Finished& b) { return a.score > b.score; });
  finished_.insert(place, hypothesis);
  if (static_cast<int>(finished_.size()) > options_.beam) finished_.pop_back();
}

bool Beam::can_improve() const {
  if (rows_.empty()) return false;
  if (static_cast<int>(finished_.size()) < options_.beam) return true;
  if (options_.beam == 1 || options_.early_stopping == EarlyStopping::when_full) return false;
  // Log-probabilities only fall; a positive alpha forgives most at the greatest length.
  const bool longest = options_.early_stopping == EarlyStopping::exact && options_.length_penalty > 0;
  return score(rows_.front().total, longest ? limit_ : length_) > finished_.back().score;
}

void Beam::advance(std::span<const Candidate> candidates) {
  std::vector<Row> next;
  ++length_;
  int rank = 0;
  for (const Candidate& candidate : candidates) {
    const Row& row = rows_[static_cast<size_t>(candidate.row)];
    if (candidate.id == eos_) {
      if (rank < options_.beam) {
        finish({.score = score(candidate.total, length_),
                .total = candidate.total,
                .node = row.node,
                .eos_log_probability = candidate.log_probability,
                .complete = true});
      }
    } else if (static_cast<int>(next.size()) < options_.beam) {
      nodes_.push_back({row.node, candidate.id, candidate.log_probability});
      next.push_back({candidate.total, candidate.row, candidate.id, static_cast<int32_t>(nodes_.size()) - 1});
    }
    ++rank;
  }
  rows_ = std::move(next);
  if (!can_improve()) {
    rows_.clear();
  } else if (length_ + 1 >= limit_) {
    for (const Row& row : rows_) {
      finish({.score = score(row.total, length_ + 1),
              .total = row.total,
              .node = row.node,
              .eos_log_probability = 0,
              .complete = false});
    }
    rows_.clear();
  }
}

Hypothesis Beam::spell(const Finished& hypothesis) const {
  Hypothesis result{.ids = {eos_},
                    .score = hypothesis.score,
                    .log_probability = hypothesis.total,
                    .token_log_probabilities = {hypothesis.eos_log_probability},
                    .complete = hypothesis.complete};
  for (int32_t node = hypothesis.node; node >= 0; node = nodes_[static_cast<size_t>(node)].parent) {
    result.ids.push_back(nodes_[static_cast<size_t>(node)].id);
    result.token_log_probabilities.push_back(nodes_[static_cast<size_t>(node)].log_probability);
  }
  std::reverse(result.ids.begin(), result.ids.end());
  std::reverse(result.token_log_probabilities.begin(), result.token_log_probabilities.end());
  return result;
}

NBest Beam::result() const {
  NBest result;
  for (const Finished& hypothesis : finished_) {
    if (static_cast<int>(result.size()) == options_.nbest) break;
    result.push_back(spell(hypothesis));
  }
  return result;
}

}  // namespace qkv::decode
