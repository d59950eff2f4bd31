#pragma once
// Hypotheses of one request that are sampled.

#include "qkv/search/hypotheses.h"

namespace qkv::search {

// options.nbest independent samples. They are one row until the first token that is sampled.
class Samples : public Hypotheses {
 public:
  using Hypotheses::Hypotheses;

  // A candidate for each sample of the row that all begin with; then one of each row.
  size_t wanted() const override {
    return static_cast<size_t>(length_ == std::ssize(request_.prefix) ? options_.nbest : 1);
  }
  // Each row's candidates: none, or wanted(), in the order of samples.
  void advance(std::span<const RowStep> steps) override;
  NBest result() const override;

 private:
  void cut(const Row& row);

  std::vector<Finished> finished_;
};

}  // namespace qkv::search
