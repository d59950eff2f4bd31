#pragma once
// Affine maps, and the loss that ends a model with one.

#include <memory>
#include <vector>

#include "qkv/kernels/activation.h"
#include "qkv/kernels/dropout.h"
#include "qkv/ops/tape.h"

namespace qkv {

// The weights of one affine map, [n_i, k] each, and optional biases, [n_i] each: y = x [W_1; W_2; ...]^T +
// [b_1, b_2, ...]. Several maps of one input (queries, keys, values) are one product. Weights may have any
// form (ops/weight_form.h), all of them the same.
//
// While a tape lives, f32 is packed for each use: the weights change after it, and copies of all of them
// would be kept for nothing. Without one, weights are read where they lie, be it in a mapped file; what that
// needs beside them (sums of int8 rows, biases laid end to end) is made when first needed and again when a
// weight has changed, safely from several threads at once.
class LinearWeights {
 public:
  // `biases` is empty or as long as `weights`; an undefined one counts as zeros. Values may come later.
  explicit LinearWeights(std::vector<Variable> weights, std::vector<Variable> biases = {});
  ~LinearWeights();
  LinearWeights(LinearWeights&&) noexcept;
  LinearWeights& operator=(LinearWeights&&) noexcept;

  const std::vector<Variable>& weights() const { return weights_; }
  const std::vector<Variable>& biases() const { return biases_; }
  int64_t inputs() const;
  int64_t outputs() const;

 private:
  class Prepared;
  friend struct LinearAccess;
  std::vector<Variable> weights_, biases_;
  std::unique_ptr<Prepared> prepared_;
};

// x [tokens, k] -> [tokens, n]. Throws ShapeError, and UsageError where weights that are not f32 would be
// trained.
Variable linear(const Variable& x, const LinearWeights& weights);

// dropout(activation(linear(x, weights))), the first half of a feed-forward. With relu, only the result is
// kept for the backward pass.
Variable linear_activate(const Variable& x, const LinearWeights& weights, kernels::Activation activation,
                         const kernels::Dropout& dropout = {});

struct CrossEntropyOptions {
  float label_smoothing = 0;
  // Multiplies the sum of the rows' losses: 1 / (number of labels) for a mean.
  float factor = 1;
  // Logits are computed for this many rows at a time, so that a large vocabulary does not decide the memory.
  int64_t chunk_rows = 512;
};

struct CrossEntropyResult {
  Variable loss;        // [1]: factor * the sum over rows of the smoothed cross-entropy
  double loss_sum = 0;  // the same sum without the factor
  double nll_sum = 0;   // the sum of -log p[label], in natural logarithms
};

// softmax(linear(x, weights)) held against labels [tokens] (i32). The gradient is computed on the way
// forward, while the logits are at hand; the whole matrix of logits never exists. Throws ShapeError, and
// DataError for a label outside the vocabulary.
CrossEntropyResult linear_cross_entropy(const Variable& x, const LinearWeights& weights, const Tensor& labels,
                                        const CrossEntropyOptions& options);

}  // namespace qkv
