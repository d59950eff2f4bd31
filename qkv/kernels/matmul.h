#pragma once
// Matrix products. Matrices are [rows, cols], possibly columns of wider ones, on one device: activations and
// results of f32 or bf16 (backend/elements.h), weights as stated.
//
// The right-hand side is packed (training: weights are packed for each forward and each backward pass, and
// products of many rows are fastest) or read in place (inference: no second copy of the model). The two may
// sum in different orders, so their last bits differ; the caller chooses. A row of the result has the same
// bits for any number of other rows.
//
// Products with a packed right-hand side, and gradients of weights, may round both operands to bf16 (to
// nearest, ties to even), for mixed-precision training (Kalamkar et al. 2019, "A Study of BFLOAT16 for Deep
// Learning Training"). Sums are f32.

#include <cstdint>
#include <memory>
#include <span>

#include "qkv/kernels/kinds.h"
#include "qkv/tensor/quantized_tensor.h"

namespace qkv::kernels {

class PreparedMatrix;

// An f32 right-hand side, copied into the layout of the device's product and rounded to `operands`, f32 or
// bf16. Products round the left-hand side likewise.
class PackedMatrix {
 public:
  PackedMatrix() = default;
  // The transpose of stacked blocks: blocks [n_i, k] become a [k, sum n_i] right-hand side, for y = x W^T.
  static PackedMatrix transposed(std::span<const Tensor> blocks, DType operands = DType::f32);
  // Stacked blocks [n_i, k], unchanged: a [sum n_i, k] right-hand side, for dx = dy W.
  static PackedMatrix plain(std::span<const Tensor> blocks, DType operands = DType::f32);

  bool empty() const { return prepared_ == nullptr; }
  const std::shared_ptr<const PreparedMatrix>& prepared() const { return prepared_; }

 private:
  std::shared_ptr<const PreparedMatrix> prepared_;
};

// The transpose of stacked weights [n_i, k]: a [k, sum n_i] right-hand side, read in place. Of several dtypes
// none may be i8. Keeps the weights' memory alive.
class WeightView {
 public:
  WeightView() = default;
  explicit WeightView(std::span<const QuantizedTensor> blocks);

  bool empty() const { return prepared_ == nullptr; }
  size_t bytes() const { return bytes_; }  // of the weights
  Device device() const { return device_; }
  const std::shared_ptr<const PreparedMatrix>& prepared() const { return prepared_; }

 private:
  size_t bytes_ = 0;
  Device device_ = Device::cpu;
  std::shared_ptr<const PreparedMatrix> prepared_;
};

// Views alike in dtypes and shapes, each with a bias [n] or an undefined one, of which a row of a product is
// multiplied by one.
class ChosenViews {
 public:
  ChosenViews() = default;
  ChosenViews(std::span<const WeightView> views, std::span<const Tensor> biases);

  bool empty() const { return prepared_ == nullptr; }
  size_t bytes() const { return bytes_; }  // of one view's weights
  const std::shared_ptr<const PreparedMatrix>& prepared() const { return prepared_; }

 private:
  size_t bytes_ = 0;
  std::shared_ptr<const PreparedMatrix> prepared_;
};

// c (+)= a b, with a [m, k], b [k, n], c [m, n]; adds bias [n] if defined.
void matmul(const Tensor& a, const PackedMatrix& b, const Tensor& bias, Tensor& c, Accumulate accumulate);
// Likewise with weights in place. The bits of a column do not depend on other columns.
void matmul(const Tensor& a, const WeightView& b, const Tensor& bias, Tensor& c, Accumulate accumulate);

// c[r] = a[r / (rows of c / rows of a)] b_{chosen[r]} + its bias, with chosen i32 [rows of c] on the device:
// for few rows.
void matmul_chosen(const Tensor& a, const ChosenViews& b, const Tensor& chosen, Tensor& c);
// The rows of a up to which it is faster than to wait for the choice; 0: never.
int64_t chosen_rows(Device device);

// c (+)= a^T b, with a [rows, m], b [rows, n], c [m, n]: the gradient of a weight. The order of summation
// depends on the number of rows only.
void matmul_transposed_a(const Tensor& a, const Tensor& b, Tensor& c, Accumulate accumulate,
                         DType operands = DType::f32);

// Whether the device has instructions for products of bf16 operands. Without, those of f32 are faster.
bool has_fast_bf16(Device device);

}  // namespace qkv::kernels
