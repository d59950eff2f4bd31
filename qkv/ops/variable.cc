#include "qkv/ops/variable.h"

#include <utility>

#include "qkv/kernels/pointwise.h"

namespace qkv {

Variable::Variable(Tensor value) : node_(std::make_shared<Node>()) { node_->value = std::move(value); }

Variable Variable::parameter(Tensor value) {
  Variable leaf{std::move(value)};
  leaf.node_->requires_grad = leaf.node_->leaf = true;
  return leaf;
}

void Variable::set_value(Tensor value) {
  node_->value = std::move(value);
  touch();
}

GradientSlot Variable::slot_of(Node& node) {
  if (node.base) {
    GradientSlot whole = slot_of(*node.base);
    // The other columns get their share from other views, so the whole starts from zeros.
    if (whole.accumulate == Accumulate::no) whole.tensor.fill_zero();
    node.grad = whole.tensor.columns(node.first_column, node.value.cols());
    node.has_grad = true;
    return {node.grad, Accumulate::yes};
  }
  if (node.has_grad) return {node.grad, Accumulate::yes};
  if (!node.grad.defined() || node.grad.shape() != node.value.shape()) {
    const MemoryScope memory(node.leaf ? MemoryUse::gradients : MemoryUse::activations);
    node.grad = Tensor::empty(node.value.shape());
  }
  node.has_grad = true;
  return {node.grad, Accumulate::no};
}

GradientSlot Variable::gradient_slot() const { return slot_of(*node_); }

void Variable::add_grad(const Tensor& gradient) const {
  if (gradient.shape() != shape()) {
    throw ShapeError(concat("gradient: expected the value's shape ", shape(), ", found ", gradient.shape()));
  }
  const GradientSlot slot = gradient_slot();
  for (int64_t row = 0; row < gradient.rows(); ++row) {
    kernels::copy(gradient.data() + row * gradient.row_stride(),
                  slot.tensor.data() + row * slot.tensor.row_stride(), gradient.cols(), slot.accumulate);
  }
}

Variable Variable::columns(int64_t begin, int64_t count) const {
  Variable view{value().columns(begin, count)};
  view.node_->requires_grad = requires_grad();
  view.node_->base = node_;
  view.node_->first_column = begin;
  return view;
}

}  // namespace qkv
