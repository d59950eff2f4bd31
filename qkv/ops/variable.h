#pragma once
// A value that gradients may flow to.

#include <cstdint>
#include <memory>
#include <vector>

#include "qkv/kernels/gradient_slot.h"
#include "qkv/tensor/tensor.h"

namespace qkv {

using kernels::Accumulate;
using kernels::GradientSlot;

// A handle: copies share the value and the gradient. Values that an operation computes are made by
// Tape::record; those made here are leaves.
class Variable {
 public:
  Variable() = default;  // defined() is false
  // A constant: no gradient is computed for it. (Implicit, so that tensors can be passed to operations as
  // they are.)
  Variable(Tensor value);  // NOLINT(google-explicit-constructor)
  // A leaf with a gradient; it may get its value later.
  static Variable parameter(Tensor value = {});

  bool defined() const { return node_ != nullptr; }
  // Throws UsageError for an undefined variable; so do the functions below that read or change the value.
  const Tensor& value() const { return node().value; }
  const Shape& shape() const { return node().value.shape(); }
  bool requires_grad() const { return node_ && node_->requires_grad; }
  // Freezes a leaf (false): it gets no gradient, and operations on frozen leaves and constants alone are not
  // recorded. Every handle of the leaf sees it. Throws UsageError for what an operation computed.
  void set_requires_grad(bool wanted) const;

  // Replaces a leaf's value, or says that its numbers were changed in place: what was derived from the old
  // ones (sums of int8 rows, say) is computed again.
  void set_value(Tensor value);
  void mark_modified() { ++node().version; }
  uint64_t version() const { return node().version; }

  // The gradient, undefined where none has arrived.
  Tensor grad() const;
  bool has_grad() const { return node_ && node_->has_grad; }
  // Forgets the gradient; a leaf keeps its memory for the next one.
  void clear_grad() {
    node().has_grad = false;
    node().unwritten.clear();
  }
  GradientSlot gradient_slot() const;
  // Adds to the gradient.
  void add_grad(const Tensor& gradient) const;

  // Columns of a matrix as a variable of their own; value and gradient are views, nothing is copied. A view's
  // gradient is its columns of the whole's: columns that no gradient has reached are zeros there.
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
    bool leaf = false;    // a parameter, whose gradient outlives the step
    uint64_t record = 0;  // the recording of a tape that this value belongs to; 0: none
    uint64_t version = 0;
    // Set in a view: whose columns this is. That is never a view itself.
    std::shared_ptr<Node> base;
    int64_t first_column = 0;
    // Where views have written to the gradient: the columns that hold no numbers yet.
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
