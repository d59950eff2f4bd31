#pragma once
// Matrix products on the CPU, as kernels/matmul.h describes them.
//
// Work is split over outputs in blocks whose bounds depend on the shapes only, each computed by one thread: a
// row of the result has the same bits for any other rows and any number of threads.

#include <cstdint>
#include <memory>
#include <span>

#include "qkv/kernels/backend/matmul.h"
#include "qkv/kernels/kinds.h"

namespace qkv::kernels::cpu {

// A right-hand side, copied into the layout of the product and rounded to `operands`, f32 or bf16. Products
// round the left-hand side likewise.
class PackedMatrix {
 public:
  PackedMatrix() = default;
  // Packs the transpose of stacked row blocks: blocks [n_i, k] become a [k, sum n_i] right-hand side, for y =
  // x W^T.
  static PackedMatrix transposed(std::span<const Matrix> blocks, DType operands = DType::f32);
  // Packs stacked row blocks unchanged: a [sum n_i, k] right-hand side, for dx = dy W.
  static PackedMatrix plain(std::span<const Matrix> blocks, DType operands = DType::f32);

  bool empty() const { return impl_ == nullptr; }
  int64_t rows() const;  // the inner dimension of the product
  int64_t cols() const;

  struct Impl;
  const Impl* impl() const { return impl_.get(); }

 private:
  explicit PackedMatrix(Impl impl);

  std::shared_ptr<const Impl> impl_;
};

// The transpose of stacked weights [n_i, k]: a [k, sum n_i] right-hand side, read in place. Of several dtypes
// none may be i8. The memory of the weights must outlive it.
class WeightView {
 public:
  WeightView() = default;
  explicit WeightView(std::span<const WeightRows> blocks);

  bool empty() const { return impl_ == nullptr; }
  int64_t rows() const;  // the inner dimension of the product
  int64_t cols() const;

  struct Impl;
  const Impl* impl() const { return impl_.get(); }

 private:
  std::shared_ptr<const Impl> impl_;
};

// c (+)= a b, with a [m, k], b [k, n], c [m, n]; adds bias [n] if not null.
void matmul(const Matrix& a, const PackedMatrix& b, const float* bias, const MutableMatrix& c,
            Accumulate accumulate);
// Likewise with weights in place. The bits of a column do not depend on other columns.
void matmul(const Matrix& a, const WeightView& b, const float* bias, const MutableMatrix& c,
            Accumulate accumulate);

// c (+)= a^T b, with a [rows, m], b [rows, n], c [m, n]: the gradient of a weight. The order of summation
// depends on the number of rows only.
void matmul_transposed_a(const Matrix& a, const Matrix& b, const MutableMatrix& c, Accumulate accumulate,
                         DType operands = DType::f32);

// Whether products of bf16 operands are faster than those of f32: the processor has instructions for them.
bool has_fast_bf16();

// Number of products compiled by oneDNN since the process started.
uint64_t compiled_products();

}  // namespace qkv::kernels::cpu
