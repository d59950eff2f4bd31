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
  rows,  // plain rows
};

// A matrix [rows, cols], in blocks of columns.
struct cpu::PackedMatrix::Impl {
  struct Block {
    int64_t first_col = 0, cols = 0;
    Storage data;
  };

  int64_t rows = 0, cols = 0;
  PackLayout layout = PackLayout::rows;
  std::vector<Block> blocks;
};

}  // namespace qkv::kernels
