#pragma once
// The product shared by linear(), linear_activate() and linear_cross_entropy().

#include <memory>

#include "qkv/kernels/matmul.h"
#include "qkv/ops/linear.h"

namespace qkv {

// x W^T + b with checked arguments, and its gradients. Copyable, for backward lambdas.
class LinearProduct {
 public:
  // Throws the errors of linear(), naming the operation.
  LinearProduct(const char* operation, const Variable& x, const LinearWeights& weights, WeightLayout layout);

  // Whether a tape is recording and x, a weight or a bias requires a gradient.
  bool records() const { return records_; }

  // The weights in the product's layout.
  struct RightHandSide {
    kernels::PackedMatrix packed;
    kernels::WeightView in_place;
    Tensor bias;  // [n], or undefined
  };
  std::shared_ptr<const RightHandSide> right_hand_side() const;
  // y [rows, n] = x W^T + bias for a range of rows of x; the bias may be undefined.
  // That of weights in place, made again if a weight or bias has changed.
  static std::shared_ptr<const RightHandSide> in_place(const LinearWeights& weights);
  static void multiply(const Tensor& x, const RightHandSide& right, const Tensor& bias, Tensor& y);
  // The weights packed for dx = dy W.
  kernels::PackedMatrix packed_for_backward() const;
  static void multiply_backward(const Tensor& dy, const kernels::PackedMatrix& weights, Tensor& dx,
                                Accumulate accumulate);
  // Adds the gradients from a range of rows to the given weight and bias variables.
  void add_weight_gradients(const Tensor& x, const Tensor& dy, const std::vector<Variable>& weights,
                            const std::vector<Variable>& biases) const;

  // Whether a weight has a low-rank update, which forward() and backward() include and the functions above do
  // not.
  bool has_low_rank() const;
  // Forward and backward over all rows: y = x W^T + b, and the gradients of x, weights and biases for dy.
  Tensor forward() const;
  // For Tape::record() of backward().
  std::vector<Tape::Input> inputs() const;
  void backward(const Tensor& dy) const;

 private:
  template <class Visit>
  void for_each_low_rank(const Visit& visit) const;

  // Of packed products and of their gradients.
  DType operands() const { return layout_ == WeightLayout::packed_bf16 ? DType::bf16 : DType::f32; }

  Variable x_;
  LinearWeights weights_;
  WeightLayout layout_;
  bool records_ = false;
};

}  // namespace qkv
