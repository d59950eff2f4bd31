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

void Variable::throw_undefined() {
  throw UsageError("expected a variable with a value, found an undefined one");
}

void Variable::set_requires_grad(bool wanted) const {
  if (!node().leaf)
    throw UsageError("set_requires_grad: expected a parameter, found a constant or a computed value");
  node_->requires_grad = wanted;
  if (!wanted) clear_grad();
}

void Variable::set_value(Tensor value) {
  node().value = std::move(value);
  mark_modified();
}

Tensor Variable::grad() const {
  if (!has_grad()) return {};
  fill_unwritten(node_->base ? *node_->base : *node_);
  return node_->grad;
}

GradientSlot Variable::slot_of(Node& node) {
  if (node.base) return slot_of_view(node);
  if (node.has_grad) {
    fill_unwritten(node);
    return {node.grad, Accumulate::yes};
  }
  const MemoryScope memory(node.leaf ? MemoryUse::gradients : MemoryUse::activations);
  node.grad = Tensor::empty(node.value.shape(), DType::f32, node.value.device());
  node.has_grad = true;
  return {node.grad, Accumulate::no};
}

GradientSlot Variable::slot_of_view(Node& view) {
  Node& whole = *view.base;
  if (!whole.has_grad) {
    slot_of(whole);
    whole.unwritten = {{0, whole.value.cols()}};
  }
  view.grad = whole.grad.columns(view.first_column, view.value.cols());
  view.has_grad = true;
  const Columns own{view.first_column, view.first_column + view.value.cols()};
  for (size_t i = 0; i < whole.unwritten.size(); ++i) {
    const Columns free = whole.unwritten[i];
    if (own.begin >= free.end || own.end <= free.begin) continue;
    if (own.begin < free.begin || own.end > free.end) {  // overlapping views
      fill_unwritten(whole);
      return {view.grad, Accumulate::yes};
    }
    whole.unwritten.erase(whole.unwritten.begin() + static_cast<std::ptrdiff_t>(i));
    if (free.begin < own.begin) whole.unwritten.push_back({free.begin, own.begin});
    if (own.end < free.end) whole.unwritten.push_back({own.end, free.end});
    return {view.grad, Accumulate::no};
  }
  return {view.grad, Accumulate::yes};
}

void Variable::fill_unwritten(Node& node) {
  for (const Columns columns : node.unwritten)
    node.grad.columns(columns.begin, columns.end - columns.begin).fill_zero();
  node.unwritten.clear();
}

GradientSlot Variable::gradient_slot() const { return slot_of(node()); }

void Variable::add_grad(const Tensor& gradient) const {
  if (!gradient.defined() || gradient.dtype() != DType::f32 || gradient.shape() != shape()) {
    throw ShapeError(concat("gradient: expected f32 of the value's shape ", shape(), ", found ",
                            gradient.defined() ? name_of(gradient.dtype()) : "an undefined tensor", " ",
                            gradient.shape()));
  }
  GradientSlot slot = gradient_slot();
  kernels::copy(gradient, slot.tensor, slot.accumulate);
}

Variable Variable::columns(int64_t begin, int64_t count) const {
  Variable view{value().columns(begin, count)};
  view.node_->requires_grad = requires_grad();
  view.node_->base = node_->base ? node_->base : node_;
  view.node_->first_column = node_->first_column + begin;
  return view;
}

}  // namespace qkv
