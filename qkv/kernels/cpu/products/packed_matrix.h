#pragma once
// How the right-hand side of a product lies in memory, between the file that packs it and the one that
// multiplies.

#include <cstdint>
#include <vector>

#include "qkv/kernels/matmul.h"
#include "qkv/kernels/weight_rows.h"
#include "qkv/tensor/storage.h"

namespace qkv::kernels {

enum class PackLayout {
  // Slabs of 64 columns, one after the other; in a slab the rows, of 64 numbers each. Padded with zeros to
  // multiples of 64 columns and 16 rows. What oneDNN's AVX-512 kernel reads, and calls BA16a64b.
  slabs,
  rows,  // one after the other
  kept,  // not packed: the transpose, where its owner keeps it
};

// Whether this machine's oneDNN has a fast kernel for slabs. They are asked for by name, not with
// format_tag::any: what that chooses depends on strides, and the bits of a row would with it.
bool runs_on_slabs();

// A matrix [rows, cols], in blocks of columns.
struct PackedMatrix::Impl {
  struct Block {
    int64_t first_col = 0, cols = 0;
    Storage data;
  };

  // Some of the columns, each a row of weights in memory that somebody else owns. At most kPartCols
  // (gemm_nt.h).
  struct Kept {
    WeightRows weights;
    int64_t first_col = 0;
  };

  int64_t rows = 0, cols = 0;
  PackLayout layout = PackLayout::rows;
  std::vector<Block> blocks;
  // Where the layout is `kept`:
  DType form = DType::f32;
  std::vector<Kept> kept;
  std::vector<int32_t> sums;  // of int8, of each column
};

}  // namespace qkv::kernels
