#pragma once
// Matrix products. All matrices are f32 [rows, cols], maybe columns of wider ones, on one device.
//
// A product reads its right-hand side packed (training: weights are packed once a step, and the product of
// many rows is fastest) or in place (inference: no second copy of the model). The two may sum in different
// orders, so that their last bits differ; the caller chooses. A row of the result has the same bits whatever
// the number of rows beside it.

#include <cstdint>
#include <memory>
#include <span>

#include "qkv/kernels/accumulate.h"
#include "qkv/tensor/quantized_tensor.h"

namespace qkv::kernels {

class PreparedMatrix;

// An f32 right-hand side, copied once into the order in which the device's product reads it.
class PackedMatrix {
 public:
  PackedMatrix() = default;
  // The transpose of the blocks laid one below the other: blocks [n_i, k] become a [k, sum n_i] right-hand
  // side, as y = x W^T needs it.
  static PackedMatrix transposed(std::span<const Tensor> blocks);
  // The blocks [n_i, k] laid one below the other, as they are: a [sum n_i, k] right-hand side, as dx = dy W
  // needs it.
  static PackedMatrix plain(std::span<const Tensor> blocks);

  bool empty() const { return prepared_ == nullptr; }
  const std::shared_ptr<const PreparedMatrix>& prepared() const { return prepared_; }

 private:
  std::shared_ptr<const PreparedMatrix> prepared_;
};

// The transpose of weights [n_i, k] of one dtype, laid one below the other: a [k, sum n_i] right-hand side
// that products read in place. It keeps the weights' memory alive.
class WeightView {
 public:
  WeightView() = default;
  explicit WeightView(std::span<const QuantizedTensor> blocks);

  bool empty() const { return prepared_ == nullptr; }
  DType dtype() const { return dtype_; }  // of the weights
  const std::shared_ptr<const PreparedMatrix>& prepared() const { return prepared_; }

 private:
  DType dtype_ = DType::f32;
  std::shared_ptr<const PreparedMatrix> prepared_;
};

// c (+)= a b, with a [m, k], b [k, n], c [m, n]; bias [n] is added where it is defined.
void matmul(const Tensor& a, const PackedMatrix& b, const Tensor& bias, Tensor& c, Accumulate accumulate);
// The same with weights in place. The bits of a column do not depend on the columns beside it.
void matmul(const Tensor& a, const WeightView& b, const Tensor& bias, Tensor& c, Accumulate accumulate);

// c (+)= a^T b, with a [rows, m], b [rows, n], c [m, n]: the gradient of a weight. The order in which rows
// are summed depends on the number of rows only.
void matmul_transposed_a(const Tensor& a, const Tensor& b, Tensor& c, Accumulate accumulate);

}  // namespace qkv::kernels
