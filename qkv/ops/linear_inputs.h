#pragma once
// The inputs of linear maps, for calibration: what a weight is multiplied by decides which of its roundings
// matter.

#include <functional>
#include <vector>

#include "qkv/ops/weight.h"

namespace qkv {

// During its lifetime the observer is called with the input [tokens, k] and the weights [n_i, k] of every
// linear map of the process, on the thread that computes it. One object at a time: throws UsageError for a
// second one.
class LinearInputs {
 public:
  using Observer = std::function<void(const Tensor& x, const std::vector<Weight>& weights)>;

  explicit LinearInputs(Observer observer);
  ~LinearInputs();
  LinearInputs(const LinearInputs&) = delete;
  LinearInputs& operator=(const LinearInputs&) = delete;

  // Whether there is one.
  static bool observed();
  static void report(const Tensor& x, const std::vector<Weight>& weights);

 private:
  Observer observer_;
};

}  // namespace qkv
