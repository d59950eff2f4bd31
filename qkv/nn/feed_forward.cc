#include "qkv/nn/feed_forward.h"

namespace qkv::nn {

FeedForward::FeedForward(const FeedForwardOptions& options)
    : fc1_({.inputs = options.d_model, .outputs = options.d_ff, .bias = options.bias}),
      fc2_({.inputs = options.d_ff, .outputs = options.d_model, .bias = options.bias}),
      activation_(options.activation),
      dropout_(options.dropout) {}

Variable FeedForward::operator()(const Variable& x, Pass& pass) const {
  return fc2_(fc1_(x, activation_, pass.dropout(dropout_)));
}

void FeedForward::visit(const ParameterVisitor& visitor) const {
  visit_part(visitor, "fc1", fc1_);
  visit_part(visitor, "fc2", fc2_);
}

}  // namespace qkv::nn
