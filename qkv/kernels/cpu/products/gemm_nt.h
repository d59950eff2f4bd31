#pragma once
// y = x w^T with weights read in place: a model's weights stay in the mapped file, and a decoding step, which
// has few rows, reads them once, at the speed of the memory.
//
// The bits of an element depend on the inner dimension only (float_rows-inl.h; integers have no order of
// summation). Products with packed weights sum in another order (matmul.cc).

#include <cstdint>
#include <vector>

#include "qkv/kernels/cpu/matmul.h"
#include "qkv/kernels/weight_rows.h"

namespace qkv::kernels {

// What one thread computes at a time: columns of the result, and at most this many rows. Meanwhile the second
// cache holds the rows (of floats: their block of kDepth), which are multiplied by the columns of several
// parts.
inline constexpr int64_t kPartCols = 64, kPartRows = 192;
// Of floats: columns computed side by side, at most.
inline constexpr int64_t kTileCols = 16;
// The length of inner dimension that is summed before a sum is rounded into y.
inline constexpr int64_t kDepth = 512;

// y [rows, cols] (+)= x w^T + bias, a part of a product. w and its companions begin at the part's first
// column, of which each is a row of weights.
struct GemmTile {
  int64_t rows = 0, cols = 0, inner = 0;
  DType dtype = DType::f32;  // of w
  const void* w = nullptr;
  int64_t w_stride = 0;         // elements from column to column
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
  bool tiles = false;               // whether q lies in tiles (int8_sums.h)
  int64_t q_stride = 0;             // a multiple of 64, and at least `inner`
  const float* q_scales = nullptr;  // [rows]
  const int32_t* q_zeros = nullptr;
  const float* w_scales = nullptr;  // [cols]
  const int32_t* w_sums = nullptr;  // [cols], of the column's integers
};

// Weights laid one below the other. A part holds at most kPartCols columns of the product, each a row of
// weights.
struct cpu::WeightView::Impl {
  struct Part {
    WeightRows weights;
    int64_t first_col = 0;
  };
  int64_t rows = 0, cols = 0;
  DType dtype = DType::f32;
  std::vector<Part> parts;
  std::vector<int32_t> sums;  // of i8, of each column: takes the zero points of the inputs out of a product
};

}  // namespace qkv::kernels
