#include "qkv/decode/samples.h"

#include <algorithm>

namespace qkv::decode {

void Samples::advance(std::span<const Candidate> candidates) {
  const bool first = length_ == std::ssize(request_.prefix);
  // A row without a candidate is stuck.
  std::vector<bool> goes_on(rows_.size(), false);
  for (const Candidate& candidate : candidates) goes_on[static_cast<size_t>(candidate.row)] = true;
  for (size_t r = 0; r < rows_.size(); ++r) {
    if (!goes_on[r]) finished_.push_back(cut_off(rows_[r]));
  }
  ++length_;
  std::vector<Row> next;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const Candidate& candidate = candidates[i];
    const Row& row = rows_[static_cast<size_t>(candidate.row)];
    if (ends(candidate.id)) {
      finished_.push_back(finished(row, candidate));
      continue;
    }
    next.push_back({.total = candidate.total,
                    .parent = candidate.row,
                    .id = candidate.id,
                    .node = add_token(row.node, candidate.id, candidate.log_probability),
                    .sample = first ? static_cast<int32_t>(i) : row.sample});
  }
  rows_ = std::move(next);
  if (!at_limit()) return;
  for (const Row& row : rows_) finished_.push_back(cut_off(row));
  rows_.clear();
}

NBest Samples::result() const {
  NBest result;
  for (const Finished& hypothesis : finished_) result.push_back(spell(hypothesis));
  std::ranges::stable_sort(result, std::ranges::greater(), &Hypothesis::score);
  return result;
}

}  // namespace qkv::decode
