#pragma once
// Matrix products: of packed matrices on oneDNN, for training; of weights as they are kept on kernels of our
// own, for everything else. Matrices are row-major with a stride (in elements) from row to row.
//
// Work is cut over outputs in blocks whose bounds depend on the shapes only, and each block is computed by
// one thread: a row of the result has the same bits whatever the number of rows beside it and the number of
// threads.

#include <cstdint>
#include <memory>
#include <span>

#include "qkv/kernels/accumulate.h"
#include "qkv/kernels/weight_rows.h"

namespace qkv::kernels {

struct Matrix {
  const float* data = nullptr;
  int64_t rows = 0, cols = 0;
  int64_t stride = 0;
};

struct MutableMatrix {
  float* data = nullptr;
  int64_t rows = 0, cols = 0;
  int64_t stride = 0;
};

// The right-hand side of a product, rearranged once into the order in which the product reads it.
class PackedMatrix {
 public:
  PackedMatrix() = default;
  // Packs the transpose of the row blocks laid one below the other: blocks [n_i, k] become a [k, sum n_i]
  // right-hand side, as y = x W^T needs it.
  static PackedMatrix transposed(std::span<const Matrix> blocks);
  // Packs the row blocks laid one below the other, as they are: a [sum n_i, k] right-hand side, as dx = dy W
  // needs it.
  static PackedMatrix plain(std::span<const Matrix> blocks);
  // The transpose of the blocks laid one below the other, all of one form, read where they lie: nothing is
  // copied, and they must outlive this. Products with it sum in another order than those with transposed(),
  // so their last bits differ; a column's bits do not depend on the columns beside it.
  static PackedMatrix kept(std::span<const WeightRows> blocks);

  bool empty() const { return impl_ == nullptr; }
  int64_t rows() const;  // the inner dimension of the product
  int64_t cols() const;
  DType form() const;  // f32, bf16 or i8

  struct Impl;
  const Impl* impl() const { return impl_.get(); }

 private:
  std::shared_ptr<const Impl> impl_;
};

// c (+)= a b, with a [m, k], b [k, n], c [m, n]; bias [n] is added where given.
void matmul(const Matrix& a, const PackedMatrix& b, const float* bias, const MutableMatrix& c,
            Accumulate accumulate);

// c (+)= a^T b, with a [rows, m], b [rows, n], c [m, n]: the gradient of a weight. The sum over rows is made
// in an order that depends on the number of rows only.
void matmul_transposed_a(const Matrix& a, const Matrix& b, const MutableMatrix& c, Accumulate accumulate);

// How many products oneDNN has compiled since the process began.
uint64_t compiled_products();

}  // namespace qkv::kernels
