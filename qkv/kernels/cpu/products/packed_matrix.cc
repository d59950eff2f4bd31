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

constexpr int64_t kSlabRows = 16;  // the number of rows of a slab is a multiple of it
constexpr int64_t kSlabCols = 64;

// The columns of a slab or strip.
int64_t slab_cols(PackLayout layout) { return layout == PackLayout::strips ? kStripCols : kSlabCols; }

// The number of rows that a slab has memory for.
int64_t padded_rows(const cpu::PackedMatrix::Impl& packed) {
  switch (packed.layout) {
    case PackLayout::bf16_slabs:
      return round_up(packed.rows, kBf16Rows);
    case PackLayout::slabs:
      return round_up(packed.rows, kSlabRows);
    case PackLayout::strips:
      break;
  }
  return packed.rows;
}

// The columns of a block; slab_cols divides them. Strips form a single block.
int64_t block_cols(const cpu::PackedMatrix::Impl& packed) {
  return packed.layout == PackLayout::strips ? round_up(packed.cols, kStripCols) : 2048;
}

PackLayout layout_for(DType operands) {
  if (operands == DType::bf16 && onednn::runs_on_bf16_slabs()) return PackLayout::bf16_slabs;
  return onednn::runs_on_slabs() ? PackLayout::slabs : PackLayout::strips;
}

size_t element_bytes(PackLayout layout) {
  return layout == PackLayout::bf16_slabs ? sizeof(BFloat16) : sizeof(float);
}

cpu::PackedMatrix::Impl allocate_blocks(int64_t rows, int64_t cols, DType operands) {
  cpu::PackedMatrix::Impl packed;
  packed.rows = rows;
  packed.cols = cols;
  packed.operands = operands;
  packed.layout = layout_for(operands);
  for (int64_t first = 0; first < cols; first += block_cols(packed)) {
    const int64_t count = std::min(block_cols(packed), cols - first);
    const int64_t numbers = padded_rows(packed) * round_up(count, slab_cols(packed.layout));
    packed.blocks.push_back(
        {first, count, allocate(static_cast<size_t>(numbers) * element_bytes(packed.layout))});
  }
  return packed;
}

// Columns of the right-hand side, at most slab_cols.
struct Slab {
  int64_t first, count;  // the columns [first, first + count) of the matrix
  std::byte* data;
};

// Calls fill(slab) for all columns, on all threads.
template <class Fill>
void for_slabs(const cpu::PackedMatrix::Impl& packed, const Fill& fill) {
  const int64_t cols = slab_cols(packed.layout), in_block = block_cols(packed);
  const int64_t slabs = (packed.cols + cols - 1) / cols;
  const int64_t grain = std::max<int64_t>(1, 32768 / (cols * std::max<int64_t>(packed.rows, 1)));
  parallel_for(slabs, grain, [&](int64_t begin, int64_t end) {
    for (int64_t index = begin; index < end; ++index) {
      const auto& block = packed.blocks[static_cast<size_t>(index * cols / in_block)];
      const int64_t within = index * cols % in_block;
      fill(Slab{block.first_col + within, std::min(cols, block.cols - within),
                block.data.get() +
                    static_cast<size_t>(within * padded_rows(packed)) * element_bytes(packed.layout)});
    }
  });
}

// Calls fill(slab, data, stride) for all columns of a matrix in f32: row i belongs at data + i * stride.
template <class Fill>
void for_f32_slabs(const cpu::PackedMatrix::Impl& packed, const Fill& fill) {
  const int64_t stride = slab_cols(packed.layout);
  for_slabs(packed, [&](const Slab& slab) {
    float* const data = reinterpret_cast<float*>(slab.data);
    fill(slab, data, stride);
    for (int64_t row = 0; packed.operands == DType::bf16 && row < packed.rows; ++row)
      round_values(data + row * stride, slab.count, data + row * stride);
    for (int64_t row = 0; row < padded_rows(packed); ++row) {
      float* const to = data + row * stride;
      std::fill(to + (row < packed.rows ? slab.count : 0), to + stride, 0.0f);
    }
  });
}

// Likewise for pairs of rows of bf16_slabs: fill(slab, data) writes the pairs of row 2 i at data + 2 i *
// kSlabCols.
template <class Fill>
void for_bf16_slabs(const cpu::PackedMatrix::Impl& packed, const Fill& fill) {
  for_slabs(packed, [&](const Slab& slab) {
    auto* const data = reinterpret_cast<BFloat16*>(slab.data);
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
    const float* const data = block.data.f32();
    for (int64_t i = 0; i < block.rows; ++i) rows.push_back(data + i * block.stride);
  }
  return rows;
}

}  // namespace

cpu::PackedMatrix::PackedMatrix(Impl impl) : impl_(std::make_shared<const Impl>(std::move(impl))) {}

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
  return PackedMatrix(std::move(packed));
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
  return PackedMatrix(std::move(packed));
}

}  // namespace qkv::kernels
