#pragma once
// Samples for one request.

#include "qkv/search/hypotheses.h"

namespace qkv::search {

// options.nbest independent samples. They share one row until the first sampled token.
class Samples : public Hypotheses {
 public:
  using Hypotheses::Hypotheses;

  // One candidate for each sample while they share a row, then one per row.
  size_t wanted() const override {
    return static_cast<size_t>(length_ == std::ssize(request_.prefix) ? options_.nbest : 1);
  }
  // Each row has either no candidates or wanted() of them, in sample order.
  void advance(std::span<const RowStep> steps) override;
  NBest result() const override;

 private:
  void cut(const Row& row);

  std::vector<Finished> finished_;
};

}  // namespace qkv::search
