#pragma once
// Products of 8-bit rows (grouped_rows.h) with weights in blocks.
//
// For each element, y = bias, and then for each group g of the inner dimension in order
//   y = y + (sum over the group of weight and input integers, exact) * (weight scale g * input scale g)
//   y = y + (weight offset g) * (input scale g * sum of its input integers), for encodings with offsets,
// so that its bits depend on nothing else, and not on the method.
//
// Some columns (rows of weights) at a time are unpacked into a panel, in the L1 cache while the rows pass:
// the same four (or, as words, two) numbers of all its columns side by side, then the next of each.

#include <cstddef>
#include <cstdint>

#include "qkv/kernels/cpu/products/grouped_rows.h"
#include "qkv/tensor/dtype.h"

namespace qkv::kernels {

struct BlockPanel {
  int64_t groups = 0;
  int64_t width = GroupedRows::kGroup;  // numbers of a group: 32 or 16
  int bits = 8;                         // of numbers
  int zero = 0;                         // that stands for 0
  const void* numbers = nullptr;
  const float* scales = nullptr;   // [groups, columns]
  const float* offsets = nullptr;  // likewise, or null
};

// Rows of inputs from the panel's first group on, and their results, all columns of the panel.
struct PanelRows {
  int64_t count = 0;
  const void* numbers = nullptr;
  int64_t stride = 0;  // numbers between rows
  const float* scales = nullptr;
  const float* shifts = nullptr;
  const int32_t* sums = nullptr;
  int64_t group_stride = 0;  // between rows of scales and shifts; twice as much of sums
  float* y = nullptr;        // adds to it
  int64_t y_stride = 0;

  // Leaves out the first rows, whose numbers have this many bytes.
  void drop(int64_t rows, int64_t number_bytes) {
    count -= rows;
    numbers = static_cast<const std::byte*>(numbers) + rows * stride * number_bytes;
    scales += rows * group_stride;
    shifts += rows * group_stride;
    sums += rows * 2 * group_stride;
    y += rows * y_stride;
  }
};

// With AVX-512 VNNI: panels of bytes with kVnniCols columns.
inline constexpr int64_t kVnniCols = 16;
// Puts `groups` groups of kVnniCols columns of blocks, which begin at these addresses, into a panel. Requires
// packs_blocks(dtype): other encodings are unpacked first.
constexpr bool packs_blocks(DType dtype) {
  return dtype == DType::q8_0 || dtype == DType::q4_0 || dtype == DType::q4_1 || dtype == DType::q4_k;
}
void pack_blocks_vnni(DType dtype, const std::byte* const* columns, int64_t groups, uint8_t* panel);
// Puts kVnniCols columns of `count` bytes, a multiple of 16, that begin every `stride` bytes into a panel.
void pack_bytes_vnni(const uint8_t* columns, int64_t stride, int64_t count, uint8_t* panel);
void multiply_panel_vnni(const BlockPanel& panel, const PanelRows& rows);

}  // namespace qkv::kernels
