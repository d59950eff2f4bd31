#pragma once
// Beam search over the hypotheses of one sentence.

#include "qkv/decode/hypotheses.h"

namespace qkv::decode {

// Follows transformers' beam search. Of the best candidates, those that end and are among the first `beam`
// become finished hypotheses, and the `beam` best that do not end go on. (1 + ends) * beam suffice, as at
// most `ends` candidates of a row can end it.
class Beam : public Hypotheses {
 public:
  using Hypotheses::Hypotheses;

  size_t wanted() const override { return (2 + options_.stop.size()) * static_cast<size_t>(options_.beam); }
  // candidates: the wanted() best (or all, where there are fewer), in order.
  void advance(std::span<const Candidate> candidates) override;
  NBest result() const override;

 private:
  void finish(const Finished& hypothesis);
  bool can_improve() const;
  void record(const Candidate& candidate, TraceEntry::Fate fate) const;

  std::vector<Finished> finished_;  // best first, at most `beam`
};

}  // namespace qkv::decode
