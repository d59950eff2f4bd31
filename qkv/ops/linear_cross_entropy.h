#pragma once
// Output projection and cross-entropy as one operation.

#include <cstdint>

#include "qkv/ops/linear.h"

namespace qkv {

struct CrossEntropyOptions {
  float label_smoothing = 0;
  // Multiplies the sum of the rows' losses: 1 / (number of labels) gives the mean.
  float factor = 1;
  // Rows of logits held at a time, at least 1; bounds memory for large vocabularies.
  int64_t chunk_rows = 512;
  WeightLayout layout = WeightLayout::in_place;
};

struct CrossEntropyResult {
  struct Sums {
    double loss = 0;  // over rows of the smoothed cross-entropy, without the factor
    double nll = 0;   // of -log p[label], natural logarithms
  };

  Variable loss;  // [1]: factor * the sum over rows of the smoothed cross-entropy
  Tensor totals;  // i64 [2]: the bits of the two sums, on the device

  // Waits for the device.
  Sums sums() const;
};

// The cross-entropy of softmax(z) and labels i32 or i64 [tokens], with z = linear(x, weights), or softcap
// tanh(z / softcap) of it where softcap > 0. The gradient is computed in the forward pass, in chunks of rows,
// so that the whole matrix of logits never exists. Throws the errors of linear(), UsageError for an option
// out of range, and DataError for a label outside the vocabulary.
CrossEntropyResult linear_cross_entropy(const Variable& x, const LinearWeights& weights, const Tensor& labels,
                                        const CrossEntropyOptions& options, float softcap = 0);

}  // namespace qkv
