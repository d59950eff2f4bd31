#pragma once
// The layout of a packed right-hand side, between the file that packs it and the one that multiplies.

#include <cstdint>
#include <vector>

#include "qkv/kernels/cpu/matmul.h"
#include "qkv/tensor/storage.h"

namespace qkv::kernels {

enum class PackLayout {
  // Slabs of 64 columns, one after the other; in a slab the rows, of 64 numbers each. Padded with zeros to
  // multiples of 64 columns and 16 rows. What oneDNN's AVX-512 kernel reads, and calls BA16a64b.
  slabs,
  rows,  // one after the other
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
