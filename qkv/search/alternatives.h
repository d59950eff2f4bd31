#pragma once
// Alternative tokens at one position, each with its best completion.

#include "qkv/search/beam.h"

namespace qkv::search {

// The options.nbest most likely tokens after the prefix, each completed by a beam of its own. Until the
// prefix ends they share one row.
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
