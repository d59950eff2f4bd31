#include "qkv/kernels/cpu/products/packed_matrix.h"

#include <algorithm>
#include <array>
#include <utility>

#include "qkv/base/parallel.h"
#include "qkv/kernels/cpu/products/onednn.h"
#include "qkv/kernels/cpu/products/operands.h"
#include "qkv/kernels/cpu/products/scratch.h"

namespace qkv::kernels {
namespace {

constexpr int64_t kBlockCols = 2048;
constexpr int64_t kSlabCols = 64;  // divides kBlockCols
constexpr int64_t kSlabRows = 16;  // the number of rows of a slab is a multiple of it

// The number of rows that a slab has memory for.
int64_t padded_rows(const cpu::PackedMatrix::Impl& packed) {
  return round_up(packed.rows, packed.layout == PackLayout::bf16_slabs ? kBf16Rows : kSlabRows);
}

PackLayout layout_for(DType operands) {
  if (operands == DType::bf16 && onednn::runs_on_bf16_slabs()) return PackLayout::bf16_slabs;
  return onednn::runs_on_slabs() ? PackLayout::slabs : PackLayout::rows;
}

cpu::PackedMatrix::Impl allocate_blocks(int64_t rows, int64_t cols, DType operands) {
  cpu::PackedMatrix::Impl packed;
  packed.rows = rows;
  packed.cols = cols;
  packed.operands = operands;
  packed.layout = layout_for(operands);
  const size_t element = packed.layout == PackLayout::bf16_slabs ? sizeof(BFloat16) : sizeof(float);
  for (int64_t first = 0; first < cols; first += kBlockCols) {
    const int64_t count = std::min(kBlockCols, cols - first);
    const int64_t numbers =
        packed.layout == PackLayout::rows ? rows * count : padded_rows(packed) * round_up(count, kSlabCols);
    packed.blocks.push_back({first, count, allocate(static_cast<size_t>(numbers) * element)});
  }
  return packed;
}

// Columns of the right-hand side: at most kSlabCols of one block.
struct Slab {
  int64_t first, count;  // the columns [first, first + count) of the matrix
  std::byte* block;      // the memory of their block
  int64_t within;        // the first one's number in the block
  int64_t block_cols;
};

// Calls fill(slab) for all columns, on all threads.
template <class Fill>
void for_slabs(const cpu::PackedMatrix::Impl& packed, const Fill& fill) {
  const int64_t slabs = (packed.cols + kSlabCols - 1) / kSlabCols;
  const int64_t grain = std::max<int64_t>(1, 32768 / (kSlabCols * std::max<int64_t>(packed.rows, 1)));
  parallel_for(slabs, grain, [&](int64_t begin, int64_t end) {
    for (int64_t index = begin; index < end; ++index) {
      const auto& block = packed.blocks[static_cast<size_t>(index * kSlabCols / kBlockCols)];
      const int64_t within = index * kSlabCols % kBlockCols, count = std::min(kSlabCols, block.cols - within);
      fill(Slab{block.first_col + within, count, block.data.get(), within, block.cols});
    }
  });
}

// Calls fill(slab, data, stride) for all columns of a matrix in f32: row i belongs at data + i * stride.
template <class Fill>
void for_f32_slabs(const cpu::PackedMatrix::Impl& packed, const Fill& fill) {
  for_slabs(packed, [&](const Slab& slab) {
    float* const block = reinterpret_cast<float*>(slab.block);
    const bool plain = packed.layout == PackLayout::rows;
    const int64_t stride = plain ? slab.block_cols : kSlabCols;
    float* const data = block + slab.within * (plain ? 1 : padded_rows(packed));
    fill(slab, data, stride);
    for (int64_t row = 0; packed.operands == DType::bf16 && row < packed.rows; ++row)
      round_values(data + row * stride, slab.count, data + row * stride);
    if (plain) return;
    for (int64_t row = 0; row < padded_rows(packed); ++row) {
      float* const to = data + row * stride;
      std::fill(to + (row < packed.rows ? slab.count : 0), to + kSlabCols, 0.0f);
    }
  });
}

// Likewise for pairs of rows of bf16_slabs: fill(slab, data) writes the pairs of row 2 i at data + 2 i *
// kSlabCols.
template <class Fill>
void for_bf16_slabs(const cpu::PackedMatrix::Impl& packed, const Fill& fill) {
  for_slabs(packed, [&](const Slab& slab) {
    auto* const data = reinterpret_cast<BFloat16*>(slab.block) + slab.within * padded_rows(packed);
    if (slab.count < kSlabCols || packed.rows < padded_rows(packed))
      std::fill_n(data, padded_rows(packed) * kSlabCols, BFloat16{});
    fill(slab, data);
  });
}

int64_t count_rows(std::span<const Matrix> blocks) {
  int64_t rows = 0;
  for (const Matrix& block : blocks) rows += block.rows;
  return rows;
}

// The rows of the stacked blocks.
std::vector<const float*> all_rows(std::span<const Matrix> blocks) {
  std::vector<const float*> rows;
  rows.reserve(static_cast<size_t>(count_rows(blocks)));
  for (const Matrix& block : blocks) {
    for (int64_t i = 0; i < block.rows; ++i) rows.push_back(block.data + i * block.stride);
  }
  return rows;
}

}  // namespace

int64_t cpu::PackedMatrix::rows() const { return impl_ ? impl_->rows : 0; }
int64_t cpu::PackedMatrix::cols() const { return impl_ ? impl_->cols : 0; }

cpu::PackedMatrix cpu::PackedMatrix::transposed(std::span<const Matrix> blocks, DType operands) {
  const std::vector<const float*> from = all_rows(blocks);
  Impl packed = allocate_blocks(blocks[0].cols, count_rows(blocks), operands);
  if (packed.layout == PackLayout::bf16_slabs) {
    // A pair of rows is a row of 32-bit numbers: pairs are transposed as such.
    const int64_t rows = round_up(packed.rows, 2);
    for_bf16_slabs(packed, [&](const Slab& slab, BFloat16* data) {
      auto* const rounded = scratch<BFloat16>(Scratch::turned, slab.count * rows);
      round_rows(from.data() + slab.first, slab.count, packed.rows, rounded, rows);
      std::array<const float*, kSlabCols> pairs{};
      for (int64_t i = 0; i < slab.count; ++i)
        pairs[static_cast<size_t>(i)] = reinterpret_cast<const float*>(rounded + i * rows);
      transpose_rows(pairs.data(), slab.count, rows / 2, reinterpret_cast<float*>(data), kSlabCols);
    });
  } else {
    for_f32_slabs(packed, [&](const Slab& slab, float* data, int64_t stride) {
      transpose_rows(from.data() + slab.first, slab.count, packed.rows, data, stride);
    });
  }
  cpu::PackedMatrix result;
  result.impl_ = std::make_shared<const Impl>(std::move(packed));
  return result;
}

cpu::PackedMatrix cpu::PackedMatrix::plain(std::span<const Matrix> blocks, DType operands) {
  const std::vector<const float*> from = all_rows(blocks);
  Impl packed = allocate_blocks(count_rows(blocks), blocks[0].cols, operands);
  if (packed.layout == PackLayout::bf16_slabs) {
    for_bf16_slabs(packed, [&](const Slab& slab, BFloat16* data) {
      round_pairs(from.data(), packed.rows, slab.first, slab.count, data, kSlabCols);
    });
  } else {
    for_f32_slabs(packed, [&](const Slab& slab, float* data, int64_t stride) {
      for (int64_t i = 0; i < packed.rows; ++i)
        std::copy_n(from[static_cast<size_t>(i)] + slab.first, slab.count, data + i * stride);
    });
  }
  cpu::PackedMatrix result;
  result.impl_ = std::make_shared<const Impl>(std::move(packed));
  return result;
}

}  // namespace qkv::kernels
