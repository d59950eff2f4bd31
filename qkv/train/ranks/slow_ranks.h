#pragma once
// Ranks that compute longer than the others, which wait for them in each step.

#include <cstdint>
#include <vector>

namespace qkv::train {

class SlowRanks {
 public:
  // Of the steps since the last comparison, the mean of a batch.
  struct Found {
    int rank = 0;
    double seconds = 0, median = 0;  // of the rank, and of all
  };

  // `batches`: of a step, by rank.
  explicit SlowRanks(const std::vector<int64_t>& batches);

  // Given the seconds that each rank has computed in a step, returns those to warn of. Ranks are compared
  // after each kSteps steps: one is slow if a batch has taken it more than kFactor times the median (the
  // lower of two), and the difference is at least kLeast seconds in all. After the n-th time, a rank is not
  // named again for 2^n comparisons.
  std::vector<Found> add(const std::vector<double>& seconds);

  static constexpr int64_t kSteps = 8;
  static constexpr double kFactor = 1.5, kLeast = 0.5;

 private:
  struct Rank {
    int64_t batches = 0;  // of a step
    double seconds = 0;   // since the last comparison
    int64_t pause = 0;    // comparisons in which it is not named
    int64_t next_pause = 2;
  };
  std::vector<Rank> ranks_;
  int64_t steps_ = 0;
};

}  // namespace qkv::train
