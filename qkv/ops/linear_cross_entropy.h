#pragma once
// The loss that ends a model: an affine map to logits and their cross-entropy.

#include <cstdint>

#include "qkv/ops/linear.h"

namespace qkv {

struct CrossEntropyOptions {
  float label_smoothing = 0;
  // Multiplies the sum of the rows' losses: 1 / (number of labels) for a mean.
  float factor = 1;
  // Rows whose logits exist at a time, at least 1: bounds the memory of a large vocabulary.
  int64_t chunk_rows = 512;
  WeightLayout layout = WeightLayout::in_place;
};

struct CrossEntropyResult {
  Variable loss;        // [1]: factor * the sum over rows of the smoothed cross-entropy
  double loss_sum = 0;  // the same sum without the factor
  double nll_sum = 0;   // the sum of -log p[label], in natural logarithms
};

// The cross-entropy of softmax(linear(x, weights)) and labels [tokens] (i32). The gradient is computed in the
// forward pass, chunk by chunk; the whole matrix of logits never exists. Throws what linear() throws,
// UsageError for an option out of range, and DataError for a label outside the vocabulary.
CrossEntropyResult linear_cross_entropy(const Variable& x, const LinearWeights& weights, const Tensor& labels,
                                        const CrossEntropyOptions& options);

}  // namespace qkv
