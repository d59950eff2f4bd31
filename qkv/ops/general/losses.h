#pragma once
// Losses. (For large vocabularies, linear_cross_entropy() avoids the matrix of logits.)

#include "qkv/ops/tape.h"

namespace qkv {

enum class Reduction {
  mean,  // the mean over the items: [1]
  sum,   // [1]
  none,  // one loss per item
};

struct ClassLossOptions {
  // Items with this label have no loss and no gradient, and are excluded from means.
  int32_t ignored_label = -100;
  Tensor class_weights = {};  // f32 [classes]; undefined: all 1
  float label_smoothing = 0;  // in [0, 1]
  Reduction reduction = Reduction::mean;
};

// The cross-entropy of softmax(logits) over the innermost axis: logits [..., classes], labels i32 or i64
// [...]. An item with label l, class weights w and smoothing e has the loss
//   -(1 - e) w[l] log p[l] - e / classes * sum_c w[c] log p[c]
// and weight w[l] in a mean, as in PyTorch; an empty mean is 0. Throws ShapeError, DataError for a label out
// of range, UsageError for a smoothing outside [0, 1].
Variable cross_entropy(const Variable& logits, const Tensor& labels, const ClassLossOptions& options = {});

// The squared error (x - y)^2 of each element; x and y have one shape.
Variable mse(const Variable& x, const Variable& y, Reduction reduction = Reduction::mean);

}  // namespace qkv
