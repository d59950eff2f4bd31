#pragma once
// Affine maps.

#include <cstdint>
#include <memory>
#include <vector>

#include "qkv/ops/tape.h"
#include "qkv/ops/weight.h"

namespace qkv {

// How a product reads its weights. The two sum in different orders, so that their last bits differ.
enum class WeightLayout {
  // Where they lie, be it in a mapped file: for inference. What a product needs beside them (sums of int8
  // rows,
  // biases laid end to end) is made when first needed, and again when a weight has changed.
  in_place,
  // Packed for this product and then forgotten: for training, where weights change after each use and a
  // product has many rows. Only f32 is packed; other dtypes are read in place.
  packed,
};

// The weights of one affine map: y = x [W_1; W_2; ...]^T + [b_1, b_2, ...]. Several maps of one input
// (queries, keys, values) are one product. A handle: copies are the same map. Safe to use from several
// threads at once.
class LinearWeights {
 public:
  // Weights [n_i, k], at least one; biases with n_i elements, empty or one for each weight. An undefined bias
  // counts as zeros. Values may come later. Throws UsageError for no weights, an undefined weight or another
  // number of biases.
  explicit LinearWeights(std::vector<Weight> weights, std::vector<Variable> biases = {});

  const std::vector<Weight>& weights() const;
  const std::vector<Variable>& biases() const;  // one for each weight
  int64_t inputs() const;                       // k
  int64_t outputs() const;                      // the sum of n_i

 private:
  friend class LinearProduct;
  struct State;
  std::shared_ptr<State> state_;
};

// x [tokens, k] -> [tokens, n]. x and the biases are f32; the weights have one dtype. An i8 product rounds x
// to 8 bits, row by row; its gradient is that of the product without this rounding. Frozen weights of any
// dtype pass the gradient on to x: dx = dy W. Throws ShapeError where x, weights and biases do not fit each
// other, and UsageError where a weight to be trained is not f32.
Variable linear(const Variable& x, const LinearWeights& weights,
                WeightLayout layout = WeightLayout::in_place);

}  // namespace qkv
