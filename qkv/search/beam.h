#pragma once
// Beam search for one request.

#include "qkv/search/hypotheses.h"

namespace qkv::search {

// Follows transformers' beam search: among the best candidates, those that end and rank within the first
// `beam` become finished hypotheses; the `beam` best others are continued.
class Beam : public Hypotheses {
 public:
  using Hypotheses::Hypotheses;
  // Continues `other`, which has one row. sample: NewToken::sample.
  Beam(const Hypotheses& other, int32_t sample) : Hypotheses(other), sample_(sample) {}

  // (1 + end tokens) * beam candidates suffice, because each end token finishes a row at most once. A single
  // hypothesis needs only its best candidate.
  size_t wanted() const override;
  void advance(std::span<const RowStep> steps) override;
  NBest result() const override;

 private:
  std::vector<Candidate> best_of(std::span<const RowStep> steps) const;
  void finish(const Finished& hypothesis);
  bool can_improve() const;
  void cut_rows();
  void record(const Candidate& candidate, TraceEntry::Fate fate) const;
  void tell_best() const;

  std::vector<Finished> finished_;  // best first, at most `beam`
  int32_t sample_ = 0;
};

}  // namespace qkv::search
