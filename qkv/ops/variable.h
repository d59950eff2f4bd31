#pragma once
// A value in the computation graph, which may have a gradient.

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "qkv/kernels/gradient_slot.h"
#include "qkv/tensor/tensor.h"

namespace qkv {

using kernels::Accumulate;
using kernels::GradientSlot;

// A handle: copies share value and gradient. Results of operations are created by Tape::record; variables
// created here are leaves.
class Variable {
 public:
  Variable() = default;  // defined() is false
  // A constant without gradient. (Implicit, so that tensors can be passed to operations.)
  Variable(Tensor value);  // NOLINT(google-explicit-constructor)
  // A leaf with a gradient; its value may be set later.
  static Variable parameter(Tensor value = {});

  bool defined() const { return node_ != nullptr; }
  // Throws UsageError for an undefined variable; so do the functions below that read or change the value.
  const Tensor& value() const {
    arrive();
    return node().value;
  }
  const Shape& shape() const { return node().value.shape(); }
  bool requires_grad() const { return node_ && whole().requires_grad; }
  // Freezes (false) or unfreezes a leaf. A frozen leaf gets no gradient, and operations on frozen leaves and
  // constants alone are not recorded. Affects all handles of the leaf. Throws UsageError for the result of an
  // operation.
  void set_requires_grad(bool wanted) const;

  // Replaces a leaf's value. Also call it after changing the value in place, so that data derived from it
  // (such as sums of int8 rows) are recomputed.
  void set_value(Tensor value);
  // The value, to be changed in place before its next use; it counts as changed from now on.
  Tensor& mutable_value() {
    arrive();
    mark_modified();
    return node().value;
  }
  void mark_modified() { ++whole().version; }
  // The number of changes. Columns share that of their matrix. Tape::backward() refuses values that were
  // changed after an operation has read them.
  uint64_t version() const { return whole().version; }
  // A leaf's value is on its way, for example from another rank. The next read or change, also of columns,
  // first calls `wait`, which returns when the value is there; again if it throws. Empty: it is there.
  void set_arriving(std::function<void()> wait) { whole().wait = std::move(wait); }

  // The gradient; undefined if there is none.
  Tensor grad() const;
  bool has_grad() const;
  // Drops the gradient and, unless it is that of columns, its memory, which the next forward pass may need.
  void clear_grad() const;
  GradientSlot gradient_slot() const;
  // Adds to the gradient.
  void add_grad(const Tensor& gradient) const;

  // Columns of a matrix as a separate variable; value and gradient are views. Columns of the whole gradient
  // that no gradient has reached are zero. After set_value() of the matrix, take the columns again.
  Variable columns(int64_t begin, int64_t count) const;

  friend bool operator==(const Variable& a, const Variable& b) { return a.node_ == b.node_; }

 private:
  friend class Tape;
  struct Columns {
    int64_t begin, end;
  };
  struct Node {
    Tensor value;
    Tensor grad;
    bool requires_grad = false;
    bool has_grad = false;
    bool leaf = false;    // a parameter, whose gradient persists
    uint64_t record = 0;  // identifies the tape recording that this value belongs to; 0: none
    uint64_t version = 0;
    std::function<void()> wait;  // until the value has arrived; empty: it has
    // For a view of columns: the matrix, which is never a view itself, and which has the gradient and the
    // version.
    std::shared_ptr<Node> base;
    int64_t first_column = 0;
    // Columns of the gradient without values, while views have written others. Disjoint.
    std::vector<Columns> unwritten;
  };
  Node& node() const {
    if (!node_) throw_undefined();
    return *node_;
  }
  // The matrix of columns, otherwise the node itself.
  Node& whole() const { return node().base ? *node_->base : *node_; }
  Columns own_columns() const { return {node_->first_column, node_->first_column + node_->value.cols()}; }
  void arrive() const {
    if (whole().wait) [[unlikely]]
      wait_for_value();
  }
  void wait_for_value() const;
  [[noreturn]] static void throw_undefined();
  static GradientSlot slot_of(Node& node);
  GradientSlot slot_of_columns() const;
  static void require_gradient_fits(const Node& node);
  static void fill_unwritten(Node& node);
  // Removes `columns` from the unwritten ones; returns those that were among them.
  static std::vector<Columns> take_unwritten(Node& node, Columns columns);
  static int64_t count(const std::vector<Columns>& columns);

  std::shared_ptr<Node> node_;
};

}  // namespace qkv
