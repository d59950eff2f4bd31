#include "qkv/nn/feed_forward.h"

#include "qkv/ops/gated.h"

namespace qkv::nn {

FeedForward::FeedForward(const FeedForwardOptions& options)
    : fc1_({.inputs = options.d_model, .outputs = options.d_ff, .bias = options.bias}),
      fc2_({.inputs = options.d_ff, .outputs = options.d_model, .bias = options.bias}),
      activation_(options.activation),
      dropout_(options.dropout) {
  if (!options.gated) return;
  gate_.emplace(LinearOptions{.inputs = options.d_model, .outputs = options.d_ff, .bias = options.bias});
  both_.emplace(std::vector{gate_->weight().weight(), fc1_.weight().weight()},
                std::vector{gate_->bias().variable, fc1_.bias().variable});
}

Variable FeedForward::operator()(const Variable& x, ForwardContext& context) const {
  const Dropout dropout = context.dropout(dropout_);
  if (!gate_) return fc2_(fc1_(x, activation_, dropout, context), context);
  const Variable inner = linear(x, *both_, context.weight_layout());
  const int64_t d_ff = inner.value().cols() / 2;
  return fc2_(gated(inner.columns(0, d_ff), inner.columns(d_ff, d_ff), activation_, dropout), context);
}

void FeedForward::visit(const ParameterVisitor& visitor) const {
  visit_part(visitor, "fc1", fc1_);
  visit_part(visitor, "fc2", fc2_);
  if (gate_) visit_part(visitor, "gate", *gate_);
}

}  // namespace qkv::nn
