#pragma once
// Alternatives to the token at a position.

#include "qkv/search/beam.h"

namespace qkv::search {

// The options.nbest likeliest tokens after the prefix, each continued by a beam of its own. Until then all
// are one row.
class Alternatives : public Hypotheses {
 public:
  using Hypotheses::Hypotheses;

  size_t wanted() const override {
    return beams_.empty() ? static_cast<size_t>(options_.nbest) : beams_.front().wanted();
  }
  void advance(std::span<const RowStep> steps) override;
  // The best of each beam, in the order of the beams.
  NBest result() const override;

  void append_tokens(int32_t row, std::vector<int32_t>& tokens) const override;

 private:
  std::vector<Beam> beams_;
};

}  // namespace qkv::search
