#pragma once
// Linear maps of which each row uses one, such as those of experts.

#include <memory>
#include <vector>

#include "qkv/ops/linear.h"

namespace qkv {

// Several maps of the same sizes. A handle: copies refer to the same maps. Safe to use from several threads.
class LinearChoices {
 public:
  // Throws UsageError for no maps.
  explicit LinearChoices(std::vector<LinearWeights> maps);

  // Whether linear_chosen() takes them for x [tokens, k], and is faster than a product for each map: with few
  // tokens, for inference, and maps alike in dtypes and shapes, without low-rank updates. While a tape
  // records, frees what was derived from the weights.
  bool suit(const Tensor& x) const;

 private:
  friend Tensor linear_chosen(const Tensor& x, const LinearChoices& choices, const Tensor& chosen);
  struct State;
  std::shared_ptr<State> state_;
};

// y[r] = the map chosen[r] of row r / (rows / tokens) of x: x [tokens, k], chosen i32 [rows] on the device of
// x, rows a multiple of the tokens -> [rows, n]. The host does not wait for the choice. A row's bits are
// those of linear() with weights in place. Throws ShapeError if x or chosen do not fit.
Tensor linear_chosen(const Tensor& x, const LinearChoices& choices, const Tensor& chosen);

}  // namespace qkv
