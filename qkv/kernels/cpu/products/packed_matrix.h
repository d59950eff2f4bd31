#pragma once
// The layout of a packed right-hand side, shared by packing and multiplication.

#include <cstdint>
#include <vector>

#include "qkv/kernels/cpu/matmul.h"
#include "qkv/tensor/storage.h"

namespace qkv::kernels {

enum class PackLayout {
  // Slabs of 64 columns; within a slab, rows of 64 numbers. Zero-padded to multiples of 64 columns and 16
  // rows. The layout of oneDNN's AVX-512 kernel, called BA16a64b.
  slabs,
  // Slabs of 64 columns of bf16; within a slab, pairs of rows whose numbers alternate. Zero-padded to
  // multiples of 64 columns and 32 rows. The layout of oneDNN's kernels for bf16, called BA16a64b2a.
  bf16_slabs,
  // Strips of kStripCols columns; within a strip, rows of kStripCols numbers. Zero-padded to multiples of
  // kStripCols columns. The layout of our own kernel (strip_product.h).
  strips,
};

inline constexpr int64_t kStripCols = 16;

// The rows of bf16_slabs, and of the operand that they are multiplied with, are multiples of it.
inline constexpr int64_t kBf16Rows = 32;

constexpr int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

// A matrix [rows, cols], in blocks of columns.
struct cpu::PackedMatrix::Impl {
  struct Block {
    int64_t first_col = 0, cols = 0;
    Storage data;
  };

  int64_t rows = 0, cols = 0;
  PackLayout layout = PackLayout::strips;
  // The dtype to which both operands are rounded, f32 or bf16. Without instructions for bf16, the rounded
  // values are stored as f32.
  DType operands = DType::f32;
  std::vector<Block> blocks;
};

}  // namespace qkv::kernels
