#pragma once
// Products with weights as they are kept (kernels/weight_rows.h): nothing is packed for longer than a product
// takes, so a model's weights may stay in the mapped file, and a step that computes few rows reads them once,
// at the memory's speed.
//
// An element's bits depend on the inner dimension only: on nothing in whose company it is computed
// (float_rows-inl.h; whole numbers have no order). The products that training runs sum in another order
// (matmul.cc).

#include <cstdint>
#include <vector>

#include "qkv/kernels/matmul.h"
#include "qkv/kernels/weight_rows.h"

namespace qkv::kernels {

// What one thread computes at a time: so many columns of the result, of at most so many rows. Meanwhile the
// second cache holds the rows (of floats: their block of kDepth), which are multiplied by several parts'
// columns.
inline constexpr int64_t kPartCols = 64, kPartRows = 192;
// Of floats: at most so many columns are computed side by side.
inline constexpr int64_t kTileCols = 16;
// So much of the inner dimension is summed before anything is rounded into y.
inline constexpr int64_t kDepth = 512;

// y [rows, cols] (+)= x w^T + bias, a part of a product. w and its companions begin at the part's first
// column, of which each is a row of weights.
struct GemmTile {
  int64_t rows = 0, cols = 0, inner = 0;
  DType form = DType::f32;
  const void* w = nullptr;
  const float* bias = nullptr;  // [cols], or null
  bool accumulate = false;
  float* y = nullptr;
  int64_t y_stride = 0;

  // Of f32 and bf16: the block [first, first + kDepth) of the inner dimension only. The first one brings the
  // bias, and the others are added to it.
  const float* x = nullptr;
  int64_t x_stride = 0;
  int64_t first = 0;
  float* scratch = nullptr;  // [kDepth, kTileCols]

  // Of int8: x is (q - zero) * scale, of each row.
  const uint8_t* q = nullptr;
  bool tiles = false;               // in which q lies (int8_sums.h)
  int64_t q_stride = 0;             // a multiple of 64, and at least `inner`
  const float* q_scales = nullptr;  // [rows]
  const int32_t* q_zeros = nullptr;
  const float* w_scales = nullptr;  // [cols]
  const int32_t* w_sums = nullptr;  // of each row of numbers
};

// The same for a whole product. `b` holds weights as they are kept.
void gemm_nt(const Matrix& a, const PackedMatrix::Impl& b, const float* bias, const MutableMatrix& c,
             Accumulate accumulate);

// The sum of each row of int8 numbers, which takes the inputs' zero points out of a product.
std::vector<int32_t> row_sums(const WeightRows& weights);

}  // namespace qkv::kernels
