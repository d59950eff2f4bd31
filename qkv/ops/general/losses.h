#pragma once
// Losses. (linear_cross_entropy() ends a model with a large vocabulary without its matrix of logits.)

#include "qkv/ops/tape.h"

namespace qkv {

enum class Reduction {
  mean,  // a mean over the items: [1]
  sum,   // [1]
  none,  // a loss for each item
};

struct ClassLossOptions {
  int32_t ignored_label = -100;  // items with this label have no loss and no gradient, and count in no mean
  Tensor class_weights = {};     // f32 [classes]; undefined: all 1
  float label_smoothing = 0;     // in [0, 1]
  Reduction reduction = Reduction::mean;
};

// The cross-entropy of softmax(logits), over the innermost axis, against labels: logits [..., classes],
// labels i32
// [...]. An item with label l, class weights w and smoothing e has the loss
//   -(1 - e) w[l] log p[l] - e / classes * sum_c w[c] log p[c]
// and counts w[l] times in a mean, as in PyTorch; a mean over nothing is 0. Throws ShapeError, DataError for
// a label that is no class, UsageError for a smoothing outside [0, 1].
Variable cross_entropy(const Variable& logits, const Tensor& labels, const ClassLossOptions& options = {});

// The squared error (x - y)^2; shapes are equal. Its items are elements.
Variable mse(const Variable& x, const Variable& y, Reduction reduction = Reduction::mean);

}  // namespace qkv
