#include "qkv/ops/variable.h"

#include <algorithm>
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

void Variable::wait_for_value() const {
  const std::function<void()> wait = whole().wait;  // which may replace it
  wait();
  whole().wait = {};
}

void Variable::set_value(Tensor value) {
  arrive();
  node().value = std::move(value);
  mark_modified();
}

bool Variable::has_grad() const {
  if (!node_) return false;
  const Node& node = whole();
  if (!node.has_grad || !node_->base) return node.has_grad;
  // Columns have a gradient if one has reached any of them.
  const Columns own = own_columns();
  int64_t unwritten = 0;
  for (const Columns free : node.unwritten)
    unwritten += std::max<int64_t>(0, std::min(own.end, free.end) - std::max(own.begin, free.begin));
  return unwritten < own.end - own.begin;
}

Tensor Variable::grad() const {
  if (!has_grad()) return {};
  Node& node = whole();
  fill_unwritten(node);
  return node_->base ? node.grad.columns(node_->first_column, node_->value.cols()) : node.grad;
}

void Variable::clear_grad() const {
  Node& node = whole();
  if (node_->base && node.has_grad) {
    const Columns own = own_columns();
    take_unwritten(node, own);
    node.unwritten.push_back(own);
    if (count(node.unwritten) < node.value.cols()) return;
  }
  node.has_grad = false;
  node.grad = {};
  node.unwritten.clear();
}

void Variable::require_gradient_fits(const Node& node) {
  if (!node.has_grad || node.grad.shape() == node.value.shape()) return;
  throw ShapeError(concat("gradient: expected one of the value's shape ", node.value.shape(),
                          ", found that of a former value ", node.grad.shape(), "; clear it first"));
}

GradientSlot Variable::slot_of(Node& node) {
  if (node.has_grad) {
    require_gradient_fits(node);
    fill_unwritten(node);
    return {node.grad, Accumulate::yes};
  }
  const MemoryScope memory(node.leaf ? MemoryUse::gradients : MemoryUse::activations);
  node.grad = empty_like(node.value);
  node.has_grad = true;
  return {node.grad, Accumulate::no};
}

GradientSlot Variable::slot_of_columns() const {
  Node& node = whole();
  require_gradient_fits(node);
  if (!node.has_grad) {
    slot_of(node);
    node.unwritten = {{0, node.value.cols()}};
  }
  const Columns own = own_columns();
  Tensor gradient = node.grad.columns(own.begin, own.end - own.begin);
  if (gradient.shape() != node_->value.shape()) {
    throw ShapeError(concat("gradient: expected columns of the shape ", gradient.shape(),
                            ", as their matrix has now, found ", node_->value.shape()));
  }
  const std::vector<Columns> free = take_unwritten(node, own);
  if (count(free) == own.end - own.begin) return {gradient, Accumulate::no};
  for (const Columns columns : free)  // beside columns that an overlapping view has written
    node.grad.columns(columns.begin, columns.end - columns.begin).fill_zero();
  return {gradient, Accumulate::yes};
}

std::vector<Variable::Columns> Variable::take_unwritten(Node& node, Columns columns) {
  std::vector<Columns> taken, left;
  for (const Columns free : node.unwritten) {
    const Columns both{std::max(columns.begin, free.begin), std::min(columns.end, free.end)};
    if (both.begin >= both.end) {
      left.push_back(free);
      continue;
    }
    taken.push_back(both);
    if (free.begin < both.begin) left.push_back({free.begin, both.begin});
    if (both.end < free.end) left.push_back({both.end, free.end});
  }
  node.unwritten = std::move(left);
  return taken;
}

int64_t Variable::count(const std::vector<Columns>& columns) {
  int64_t sum = 0;
  for (const Columns one : columns) sum += one.end - one.begin;
  return sum;
}

void Variable::fill_unwritten(Node& node) {
  for (const Columns columns : node.unwritten)
    node.grad.columns(columns.begin, columns.end - columns.begin).fill_zero();
  node.unwritten.clear();
}

GradientSlot Variable::gradient_slot() const { return node().base ? slot_of_columns() : slot_of(*node_); }

void Variable::add_grad(const Tensor& gradient) const {
  const DType dtype = value().dtype();
  if (!gradient.defined() || gradient.dtype() != dtype || gradient.shape() != shape()) {
    throw ShapeError(concat(
        "gradient: expected ", name_of(dtype), " of the value's shape ", shape(), ", found ",
        gradient.defined() ? name_of(gradient.dtype()) : "an undefined tensor", " ", gradient.shape()));
  }
  GradientSlot slot = gradient_slot();
  kernels::copy(gradient, slot.tensor, slot.accumulate);
}

Variable Variable::columns(int64_t begin, int64_t count) const {
  Variable view{value().columns(begin, count)};
  view.node_->base = node_->base ? node_->base : node_;
  view.node_->first_column = node_->first_column + begin;
  return view;
}

}  // namespace qkv
