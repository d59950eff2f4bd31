#pragma once
// A value in the computation graph, which may have a gradient.

#include <cstdint>
#include <memory>
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
  const Tensor& value() const { return node().value; }
  const Shape& shape() const { return node().value.shape(); }
  bool requires_grad() const { return node_ && node_->requires_grad; }
  // Freezes (false) or unfreezes a leaf. A frozen leaf gets no gradient, and operations on frozen leaves and
  // constants alone are not recorded. Affects all handles of the leaf. Throws UsageError for the result of an
  // operation.
  void set_requires_grad(bool wanted) const;

  // Replaces a leaf's value. Also call it after changing the value in place, so that data derived from it
  // (such as sums of int8 rows) are recomputed.
  void set_value(Tensor value);
  // The value, to be changed in place before its next use; it counts as changed from now on.
  Tensor& mutable_value() {
    mark_modified();
    return node().value;
  }
  void mark_modified() { ++node().version; }
  uint64_t version() const { return node().version; }

  // The gradient; undefined if there is none.
  Tensor grad() const;
  bool has_grad() const { return node_ && node_->has_grad; }
  // Drops the gradient and its memory, which the next forward pass may need.
  void clear_grad() const {
    node().has_grad = false;
    node().grad = {};
    node().unwritten.clear();
  }
  GradientSlot gradient_slot() const;
  // Adds to the gradient.
  void add_grad(const Tensor& gradient) const;

  // Columns of a matrix as a separate variable; value and gradient are views. Columns of the whole gradient
  // that no gradient has reached are zero.
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
    // For a view of columns: the matrix, which is never a view itself.
    std::shared_ptr<Node> base;
    int64_t first_column = 0;
    // Columns of the gradient without values, while views have written others.
    std::vector<Columns> unwritten;
  };
  Node& node() const {
    if (!node_) throw_undefined();
    return *node_;
  }
  [[noreturn]] static void throw_undefined();
  static GradientSlot slot_of(Node& node);
  static GradientSlot slot_of_view(Node& view);
  static void fill_unwritten(Node& node);

  std::shared_ptr<Node> node_;
};

}  // namespace qkv
