#include "qkv/search/alternatives.h"

namespace qkv::search {

void Alternatives::advance(std::span<const RowStep> steps) {
  std::vector<Row> rows;
  // Advances a beam, whose rows were those from `first` on.
  const auto advance_beam = [&](Beam& beam, std::span<const RowStep> own, size_t first) {
    beam.advance(own);
    for (const Row& row : beam.rows()) {
      rows.push_back(row);
      rows.back().parent += static_cast<int32_t>(first);
    }
  };
  if (beams_.empty()) {
    for (const Candidate& candidate : steps.front().candidates) {
      const RowStep step{{candidate}, steps.front().attended};
      Beam& beam = beams_.emplace_back(*this, static_cast<int32_t>(beams_.size()));
      advance_beam(beam, std::span(&step, 1), 0);
    }
  } else {
    size_t first = 0;
    for (Beam& beam : beams_) {
      const size_t count = beam.rows().size();
      const std::span<const RowStep> those = steps.subspan(first, count);
      std::vector<RowStep> own(those.begin(), those.end());
      for (RowStep& step : own) {
        for (Candidate& candidate : step.candidates) candidate.row -= static_cast<int32_t>(first);
      }
      if (count > 0) advance_beam(beam, own, first);
      first += count;
    }
  }
  ++length_;
  rows_ = std::move(rows);
}

// A row is a beam's.
void Alternatives::append_tokens(int32_t row, std::vector<int32_t>& tokens) const {
  if (beams_.empty()) return Hypotheses::append_tokens(row, tokens);
  for (const Beam& beam : beams_) {
    const auto count = static_cast<int32_t>(beam.rows().size());
    if (row < count) return beam.append_tokens(row, tokens);
    row -= count;
  }
}

NBest Alternatives::result() const {
  NBest result;
  for (const Beam& beam : beams_) result.push_back(beam.result().front());
  return result;
}

}  // namespace qkv::search
