#pragma once
// Linear (affine) maps.

#include <cstdint>
#include <memory>
#include <vector>

#include "qkv/ops/tape.h"
#include "qkv/ops/weight.h"

namespace qkv {

// How a product reads its weights. Layouts sum in different orders, so their last bits differ.
enum class WeightLayout {
  // Reads weights where they are stored, possibly in a mapped file: for inference. Derived data (sums of int8
  // rows, concatenated biases) are computed on first use, and recomputed when a weight has changed.
  in_place,
  // Packs the weights for one product: for training, where weights change after each use and products have
  // many rows. Only f32 is packed; other dtypes are read in place.
  packed,
  // Likewise, with both operands of the product and of its gradients rounded to bf16 (kernels/matmul.h): for
  // mixed-precision training. Results, biases and gradients are f32. Low-rank updates are not rounded.
  packed_bf16,
};

// The weights of one affine map: y = x [W_1; W_2; ...]^T + [b_1, b_2, ...]. Several maps of the same input
// (queries, keys, values) are computed as one product. A handle: copies refer to the same map. Safe to use
// from several threads.
class LinearWeights {
 public:
  // Weights [n_i, k], at least one; biases of n_i elements, none or one per weight. An undefined bias is
  // zero. Values may be set later. Throws UsageError for no weights, an undefined weight or another number of
  // biases.
  explicit LinearWeights(std::vector<Weight> weights, std::vector<Variable> biases = {});

  const std::vector<Weight>& weights() const;
  const std::vector<Variable>& biases() const;  // one per weight
  int64_t inputs() const;                       // k
  int64_t outputs() const;                      // the sum of n_i

 private:
  friend class LinearProduct;
  struct State;
  State& state() const;  // throws UsageError for a map that was moved from
  std::shared_ptr<State> state_;
};

// x [tokens, k] -> [tokens, n]. x and the biases are f32; the weights have one dtype. An i8 product rounds
// each row of x to 8 bits; its gradient ignores this rounding. Frozen weights of any dtype pass the gradient
// to x: dx = dy W. Throws ShapeError if x, weights and biases do not match, and UsageError if a trainable
// weight is not f32. Adds the weights' low-rank updates.
Variable linear(const Variable& x, const LinearWeights& weights,
                WeightLayout layout = WeightLayout::in_place);

}  // namespace qkv
