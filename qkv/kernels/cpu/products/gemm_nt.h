#pragma once
// y = x w^T with weights in place: a model's weights stay in the mapped file, and a decoding step, which has
// few rows, reads them once, at memory speed.
//
// The bits of an element depend on the inner dimension only (float_rows-inl.h; integer sums have no order).
// Products with packed weights sum in another order (strips.cc, slabs.cc).

#include <cstdint>
#include <vector>

#include "qkv/kernels/cpu/matmul.h"
#include "qkv/kernels/cpu/products/grouped_rows.h"
#include "qkv/kernels/cpu/products/quantized_rows.h"
#include "qkv/kernels/weight_rows.h"

namespace qkv::kernels {

// The work of one thread at a time: columns of the result, and at most this many rows. The L2 cache holds the
// rows (for floats: their block of kDepth), which are multiplied by the columns of several parts.
inline constexpr int64_t kPartCols = 64, kPartRows = 192;
// Floats: maximum columns computed side by side.
inline constexpr int64_t kTileCols = 16;
// Length of the inner dimension that is summed before the sum is rounded into y.
inline constexpr int64_t kDepth = 512;
// With at most as many rows, columns are read from beginning to end: bound by memory, which is fastest in
// order.
inline constexpr int64_t kReadWhole = 2;

// y [rows, cols] (+)= x w^T + bias, a part of a product. w, bias, scales and sums begin at the part's first
// column; a column is a row of weights.
struct GemmTile {
  int64_t rows = 0, cols = 0, inner = 0;
  DType dtype = DType::f32;  // of w
  const void* w = nullptr;
  int64_t w_stride = 0;         // numbers between columns
  const float* bias = nullptr;  // [cols], or null
  bool accumulate = false;
  float* y = nullptr;
  int64_t y_stride = 0;

  // Floats, and weights in blocks: only `depth` numbers of the inner dimension from `first` on; floats of
  // more rows than kReadWhole: at most kDepth. The first ones add the bias, the others accumulate.
  const float* x = nullptr;
  int64_t x_stride = 0;
  int64_t first = 0, depth = 0;
  float* scratch = nullptr;  // [kDepth, kTileCols]; weights in blocks: also for the columns of a panel

  // Weights in blocks: the rows from first_row on.
  const GroupedRows* grouped = nullptr;
  int64_t first_row = 0;
  const void* following = nullptr;  // the weights that the thread reads next, if known

  // int8: x is (q - zero) * scale, for each row.
  const uint8_t* q = nullptr;
  RowLayout q_layout = RowLayout::bytes;
  int64_t q_stride = 0;             // in bytes
  const float* q_scales = nullptr;  // [rows]
  const int32_t* q_zeros = nullptr;
  const float* w_scales = nullptr;  // [cols]
  const int32_t* w_sums = nullptr;  // [cols], sums of the columns' integers
};

// Stacked weights. A part has at most kPartCols columns of the product, each a row of weights.
struct cpu::WeightView::Impl {
  struct Part {
    WeightRows weights;
    int64_t first_col = 0;
  };
  int64_t rows = 0, cols = 0;
  bool integers = false;            // all weights are i8
  bool all_blocks = true;           // all weights are in blocks
  std::vector<DType> block_dtypes;  // of those that are, each once
  std::vector<Part> parts;
  std::vector<int32_t> sums;  // i8: sum of each column, to subtract the inputs' zero points from a product
};

}  // namespace qkv::kernels
