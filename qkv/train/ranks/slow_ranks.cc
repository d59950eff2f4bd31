#include "qkv/train/ranks/slow_ranks.h"

#include <algorithm>

namespace qkv::train {

SlowRanks::SlowRanks(const std::vector<int64_t>& batches) {
  for (const int64_t own : batches) ranks_.push_back({.batches = own});
}

std::vector<SlowRanks::Found> SlowRanks::add(const std::vector<double>& seconds) {
  for (size_t i = 0; i < ranks_.size(); ++i) ranks_[i].seconds += seconds.at(i);
  if (++steps_ < kSteps) return {};
  std::vector<double> means;
  for (Rank& rank : ranks_) {
    means.push_back(rank.seconds / static_cast<double>(rank.batches * kSteps));
    rank.seconds = 0;
  }
  steps_ = 0;
  std::vector<double> sorted = means;
  std::ranges::sort(sorted);
  const double median = sorted[(sorted.size() - 1) / 2];
  std::vector<Found> found;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    Rank& rank = ranks_[i];
    if (rank.pause > 0) {
      --rank.pause;
      continue;
    }
    const double lost = (means[i] - median) * static_cast<double>(rank.batches * kSteps);
    if (means[i] <= kFactor * median || lost < kLeast) continue;
    found.push_back({static_cast<int>(i), means[i], median});
    rank.pause = rank.next_pause;
    rank.next_pause *= 2;
  }
  return found;
}

}  // namespace qkv::train
