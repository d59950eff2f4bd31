#pragma once
// Matrix products on the CPU.
//
// Work is cut over outputs in blocks whose bounds depend on the shapes only, and each block is computed by
// one thread: a row of the result has the same bits whatever the number of rows beside it and the number of
// threads.
//
// A product reads its right-hand side packed (training: weights are packed once a step, and the product of
// many rows is fastest) or in place (inference: no second copy of the model). The two sum in different
// orders, so their last bits differ; the caller chooses.

#include <cstdint>
#include <memory>
#include <span>

#include "qkv/kernels/accumulate.h"
#include "qkv/kernels/backend/matmul.h"

namespace qkv::kernels::cpu {

// An f32 right-hand side, copied once into the order in which the product reads it.
class PackedMatrix {
 public:
  PackedMatrix() = default;
  // Packs the transpose of the row blocks laid one below the other: blocks [n_i, k] become a [k, sum n_i]
  // right-hand side, as y = x W^T needs it.
  static PackedMatrix transposed(std::span<const Matrix> blocks);
  // Packs the row blocks laid one below the other, as they are: a [sum n_i, k] right-hand side, as dx = dy W
  // needs it.
  static PackedMatrix plain(std::span<const Matrix> blocks);

  bool empty() const { return impl_ == nullptr; }
  int64_t rows() const;  // the inner dimension of the product
  int64_t cols() const;

  struct Impl;
  const Impl* impl() const { return impl_.get(); }

 private:
  std::shared_ptr<const Impl> impl_;
};

// The transpose of weights [n_i, k] of one dtype, laid one below the other: a [k, sum n_i] right-hand side
// that products read in place. The memory of the weights must outlive it.
class WeightView {
 public:
  WeightView() = default;
  explicit WeightView(std::span<const WeightRows> blocks);

  bool empty() const { return impl_ == nullptr; }
  int64_t rows() const;  // the inner dimension of the product
  int64_t cols() const;
  DType dtype() const;

  struct Impl;
  const Impl* impl() const { return impl_.get(); }

 private:
  std::shared_ptr<const Impl> impl_;
};

// c (+)= a b, with a [m, k], b [k, n], c [m, n]; bias [n] is added where given.
void matmul(const Matrix& a, const PackedMatrix& b, const float* bias, const MutableMatrix& c,
            Accumulate accumulate);
// The same with weights in place. The bits of a column do not depend on the columns beside it.
void matmul(const Matrix& a, const WeightView& b, const float* bias, const MutableMatrix& c,
            Accumulate accumulate);

// c (+)= a^T b, with a [rows, m], b [rows, n], c [m, n]: the gradient of a weight. The order in which rows
// are summed depends on the number of rows only.
void matmul_transposed_a(const Matrix& a, const Matrix& b, const MutableMatrix& c, Accumulate accumulate);

// The number of products that oneDNN has compiled since the process began.
uint64_t compiled_products();

}  // namespace qkv::kernels::cpu
