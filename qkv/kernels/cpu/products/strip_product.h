#pragma once
// Products of f32 with a strip of columns (PackLayout::strips). An element is the sum of one chain of
// multiply-adds, in the order of the inner dimension, so its bits do not depend on the other rows and
// columns, and all machines with fused multiply-adds give the same bits.

#include <cstdint>

#include "qkv/kernels/cpu/products/packed_matrix.h"

namespace qkv::kernels {

// Rows computed side by side.
inline constexpr int64_t kStripRows = 6;

// c [rows, cols] (+)= a b (+ bias). All pointers begin at the product's first row and column.
struct StripProduct {
  // Rows [rows, a_stride]. Or groups of kStripRows rows, a_stride apart, the last of which may have fewer;
  // each is [depth, kStripRows], so that a column of a group is contiguous.
  const float* a = nullptr;
  int64_t a_stride = 0;
  bool grouped = false;
  const float* b = nullptr;  // [depth, kStripCols], of which `cols` columns are used
  int64_t rows = 0, cols = 0, depth = 0;
  const float* bias = nullptr;  // [cols], or null
  bool add = false;
  float* c = nullptr;
  int64_t c_stride = 0;
  const float* next = nullptr;  // the strip of the next product, to be prefetched; or null
};

void multiply_strip(const StripProduct& product);

}  // namespace qkv::kernels
