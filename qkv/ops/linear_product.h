#pragma once
// The product that linear(), linear_activate() and linear_cross_entropy() have in common.

#include <memory>

#include "qkv/kernels/matmul.h"
#include "qkv/ops/linear.h"

namespace qkv {

// x W^T + b, checked, and its gradients. Copies are for the backward pass.
class LinearProduct {
 public:
  // Throws what linear() throws, naming the operation.
  LinearProduct(const char* operation, const Variable& x, const LinearWeights& weights);

  // Whether a tape records, and x, a weight or a bias has a gradient.
  bool records() const { return records_; }

  // The right-hand side of the product, in one of the two layouts.
  struct RightHandSide {
    kernels::PackedMatrix packed;
    kernels::WeightView in_place;
    Tensor bias;  // [n], or undefined
  };
  std::shared_ptr<const RightHandSide> right_hand_side(WeightLayout layout) const;
  // y [rows, n] = x W^T + bias, for some of the rows of x; the bias may be undefined.
  static void multiply(const Tensor& x, const RightHandSide& right, const Tensor& bias, const Tensor& y);
  // The right-hand side of dx = dy W.
  kernels::PackedMatrix packed_for_backward() const;
  static void multiply_backward(const Tensor& dy, const kernels::PackedMatrix& weights, const Tensor& dx,
                                Accumulate accumulate);
  // Adds the gradients of the weights and biases that have one, from some of the rows, to others of the same
  // shapes.
  static void add_weight_gradients(const Tensor& x, const Tensor& dy, const std::vector<Variable>& weights,
                                   const std::vector<Variable>& biases);

  // All of it: y = x W^T + b, and the gradients of x, weights and biases for dy.
  Tensor forward(WeightLayout layout) const;
  void backward(const Tensor& dy) const;

 private:
  Variable x_;
  LinearWeights weights_;
  bool records_ = false;
};

}  // namespace qkv
