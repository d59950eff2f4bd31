#include "qkv/search/samples.h"

#include <algorithm>

namespace qkv::search {

void Samples::advance(std::span<const RowStep> steps) {
  const bool first = length_ == std::ssize(request_.prefix);
  for (size_t r = 0; r < rows_.size(); ++r) {
    attend(rows_[r], steps[r].attended);
    if (steps[r].candidates.empty()) cut(rows_[r]);
  }
  ++length_;
  std::vector<Row> next;
  for (size_t r = 0; r < rows_.size(); ++r) {
    for (const Candidate& candidate : steps[r].candidates) {
      Row row = continued(rows_[r], candidate);
      if (first) row.sample = static_cast<int32_t>(&candidate - steps[r].candidates.data());
      const bool wanted = tell({row.sample, candidate.id, candidate.log_probability, steps[r].top});
      if (ends(candidate.id)) {
        finished_.push_back(finished(rows_[r], candidate));
      } else if (wanted) {
        next.push_back(std::move(row));
      } else {
        finished_.push_back(truncated(row));
      }
    }
  }
  rows_ = std::move(next);
  if (!at_limit()) return;
  for (const Row& row : rows_) cut(row);
  rows_.clear();
}

void Samples::cut(const Row& row) {
  finished_.push_back(truncated(row));
  tell({row.sample, special_.eos, 0});
}

NBest Samples::result() const {
  NBest result;
  for (const Finished& hypothesis : finished_) result.push_back(spell(hypothesis));
  std::ranges::stable_sort(result, std::ranges::greater(), &Hypothesis::score);
  return result;
}

}  // namespace qkv::search
