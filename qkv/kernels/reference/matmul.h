#pragma once
// Matrix products with sums in double precision; with int8 weights, in integers.

#include <cstdint>
#include <span>
#include <vector>

#include "qkv/kernels/backend/matmul.h"
#include "qkv/kernels/reference/doubles.h"
#include "qkv/kernels/weight_rows.h"

namespace qkv::kernels::reference {

// a b: [a.rows, b.cols].
Doubles product(const Matrix& a, const Matrix& b);

// a^T b: [a.cols, b.cols].
Doubles product_transposed_a(const Matrix& a, const Matrix& b);

// x W^T: [x.rows, w.rows], w [outputs, inputs] of any dtype. With int8 weights, the rows of x are first
// rounded to 8 bits, to the same numbers as on the CPU.
Doubles product_transposed_b(const Matrix& x, const WeightRows& w);

// A row rounded to 8 bits: x_i is approximately (steps[i] - zero_point) * scale, with steps from 0 to 255.
struct QuantizedRow {
  std::vector<int32_t> steps;
  float scale = 0;  // NaN if the row has a NaN or infinity
  int32_t zero_point = 0;
};
QuantizedRow quantize_row(const float* x, int64_t count);

// The right-hand side of a product: a copy of a matrix, or the transpose of weights.
struct RightHandSide {
  std::vector<float> packed;  // [rows, cols]
  int64_t rows = 0, cols = 0;
  DType operands = DType::f32;  // of a product with `packed`, whose values are rounded already
  std::vector<WeightRows> in_place;
};
RightHandSide pack_transposed(std::span<const Matrix> blocks, DType operands);
RightHandSide pack_plain(std::span<const Matrix> blocks, DType operands);
RightHandSide view(std::span<const WeightRows> blocks);

// The kernels of kernels/backend.h.
void matmul(const Matrix& a, const RightHandSide& b, const float* bias, const MutableMatrix& c,
            Accumulate accumulate);
void matmul_transposed_a(const Matrix& a, const Matrix& b, const MutableMatrix& c, Accumulate accumulate,
                         DType operands);

}  // namespace qkv::kernels::reference
