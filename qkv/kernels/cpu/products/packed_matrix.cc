#include "qkv/kernels/cpu/products/packed_matrix.h"

#include <algorithm>
#include <array>
#include <utility>

#include "qkv/base/parallel.h"
#include "qkv/kernels/cpu/products/onednn.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "qkv/kernels/cpu/products/packed_matrix.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace qkv::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// to[(row - first) * stride + col] = from[col][row] for the rows [first, end).
void transpose_part(const float* const* from, int64_t cols, int64_t first, int64_t end, float* to,
                    int64_t stride) {
  for (int64_t row = first; row < end; ++row) {
    for (int64_t col = 0; col < cols; ++col) to[(row - first) * stride + col] = from[col][row];
  }
}

// Likewise for [0, rows), four rows at a time. Sources are often powers of two apart and map to the same
// cache sets, so a whole cache line is used before the next column.
void transpose(const float* const* from, int64_t cols, int64_t rows, float* to, int64_t stride) {
  int64_t done = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::FixedTag<float, 4> d;
  constexpr int64_t kLine = 16;
  for (; done + kLine <= rows; done += kLine) {
    float* const out = to + done * stride;
    int64_t col = 0;
    for (; col + 4 <= cols; col += 4) {
      for (int64_t row = 0; row < kLine; row += 4) {
        const auto column = [&](int64_t i) HWY_ATTR { return hn::LoadU(d, from[col + i] + done + row); };
        const auto c0 = column(0), c1 = column(1), c2 = column(2), c3 = column(3);
        const auto even_low = hn::InterleaveLower(d, c0, c2), odd_low = hn::InterleaveLower(d, c1, c3);
        const auto even_high = hn::InterleaveUpper(d, c0, c2), odd_high = hn::InterleaveUpper(d, c1, c3);
        float* const corner = out + row * stride + col;
        hn::StoreU(hn::InterleaveLower(d, even_low, odd_low), d, corner);
        hn::StoreU(hn::InterleaveUpper(d, even_low, odd_low), d, corner + stride);
        hn::StoreU(hn::InterleaveLower(d, even_high, odd_high), d, corner + 2 * stride);
        hn::StoreU(hn::InterleaveUpper(d, even_high, odd_high), d, corner + 3 * stride);
      }
    }
    transpose_part(from + col, cols - col, done, done + kLine, out + col, stride);
  }
#endif
  transpose_part(from, cols, done, rows, to + done * stride, stride);
}

}  // namespace
}  // namespace qkv::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qkv::kernels {
namespace {

HWY_EXPORT(transpose);

constexpr int64_t kBlockCols = 2048;
constexpr int64_t kSlabCols = 64;  // divides kBlockCols
constexpr int64_t kSlabRows = 16;  // the number of rows of a slab is a multiple of it

int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

cpu::PackedMatrix::Impl allocate_blocks(int64_t rows, int64_t cols) {
  cpu::PackedMatrix::Impl packed;
  packed.rows = rows;
  packed.cols = cols;
  packed.layout = onednn::runs_on_slabs() ? PackLayout::slabs : PackLayout::rows;
  for (int64_t first = 0; first < cols; first += kBlockCols) {
    const int64_t count = std::min(kBlockCols, cols - first);
    const int64_t numbers = packed.layout == PackLayout::slabs
                                ? round_up(rows, kSlabRows) * round_up(count, kSlabCols)
                                : rows * count;
    packed.blocks.push_back({first, count, allocate(static_cast<size_t>(numbers) * sizeof(float))});
  }
  return packed;
}

// The columns [first, first + count) of a packed matrix: row i is written to data + i * stride.
struct Slab {
  int64_t first, count, stride;
  float* data;
};

// Calls fill(slab) for all columns, at most kSlabCols at a time, on all threads.
template <class Fill>
void for_slabs(const cpu::PackedMatrix::Impl& packed, const Fill& fill) {
  const int64_t slabs = (packed.cols + kSlabCols - 1) / kSlabCols;
  const int64_t grain = std::max<int64_t>(1, 32768 / (kSlabCols * std::max<int64_t>(packed.rows, 1)));
  parallel_for(slabs, grain, [&](int64_t begin, int64_t end) {
    for (int64_t index = begin; index < end; ++index) {
      const auto& block = packed.blocks[static_cast<size_t>(index * kSlabCols / kBlockCols)];
      const int64_t within = index * kSlabCols % kBlockCols, count = std::min(kSlabCols, block.cols - within);
      float* const data = reinterpret_cast<float*>(block.data.get());
      if (packed.layout == PackLayout::rows) {
        fill(Slab{block.first_col + within, count, block.cols, data + within});
        continue;
      }
      const int64_t padded_rows = round_up(packed.rows, kSlabRows);
      const Slab slab{block.first_col + within, count, kSlabCols, data + within * padded_rows};
      fill(slab);
      for (int64_t row = 0; row < padded_rows; ++row) {
        float* const to = slab.data + row * kSlabCols;
        std::fill(to + (row < packed.rows ? count : 0), to + kSlabCols, 0.0f);
      }
    }
  });
}

int64_t count_rows(std::span<const Matrix> blocks) {
  int64_t rows = 0;
  for (const Matrix& block : blocks) rows += block.rows;
  return rows;
}

// Calls visit(i, pointer) for the rows [begin, end) of the stacked blocks.
template <class Visit>
void for_rows(std::span<const Matrix> blocks, int64_t begin, int64_t end, const Visit& visit) {
  int64_t first = 0;
  for (const Matrix& block : blocks) {
    for (int64_t i = std::max(begin, first); i < std::min(end, first + block.rows); ++i)
      visit(i, block.data + (i - first) * block.stride);
    first += block.rows;
  }
}

}  // namespace

int64_t cpu::PackedMatrix::rows() const { return impl_ ? impl_->rows : 0; }
int64_t cpu::PackedMatrix::cols() const { return impl_ ? impl_->cols : 0; }

cpu::PackedMatrix cpu::PackedMatrix::transposed(std::span<const Matrix> blocks) {
  Impl packed = allocate_blocks(blocks[0].cols, count_rows(blocks));
  for_slabs(packed, [&](const Slab& slab) {
    std::array<const float*, kSlabCols> from{};
    for_rows(blocks, slab.first, slab.first + slab.count,
             [&](int64_t i, const float* row) { from[static_cast<size_t>(i - slab.first)] = row; });
    HWY_DYNAMIC_DISPATCH(transpose)(from.data(), slab.count, packed.rows, slab.data, slab.stride);
  });
  cpu::PackedMatrix result;
  result.impl_ = std::make_shared<const Impl>(std::move(packed));
  return result;
}

cpu::PackedMatrix cpu::PackedMatrix::plain(std::span<const Matrix> blocks) {
  Impl packed = allocate_blocks(count_rows(blocks), blocks[0].cols);
  for_slabs(packed, [&](const Slab& slab) {
    for_rows(blocks, 0, packed.rows, [&](int64_t i, const float* row) {
      std::copy_n(row + slab.first, slab.count, slab.data + i * slab.stride);
    });
  });
  cpu::PackedMatrix result;
  result.impl_ = std::make_shared<const Impl>(std::move(packed));
  return result;
}

}  // namespace qkv::kernels
#endif
