// Panels of unpacked weights and their products (block_panel.h). Included once per Highway target.

#if defined(QKV_KERNELS_CPU_PRODUCTS_BLOCK_PANEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_KERNELS_CPU_PRODUCTS_BLOCK_PANEL_INL_H_
#undef QKV_KERNELS_CPU_PRODUCTS_BLOCK_PANEL_INL_H_
#else
#define QKV_KERNELS_CPU_PRODUCTS_BLOCK_PANEL_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

#include "qkv/kernels/cpu/products/block_panel.h"
#include "qkv/kernels/cpu/products/gemm_nt.h"
#include "qkv/kernels/cpu/products/int8_rows-inl.h"
#include "qkv/kernels/cpu/products/scratch.h"
#include "qkv/kernels/cpu/products/unpack_blocks-inl.h"
#include "qkv/kernels/cpu/row-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::kernels::HWY_NAMESPACE {

inline constexpr int64_t kMostGroups = kDepth / 16;  // of a panel's column

#if HWY_TARGET == HWY_SCALAR

// One column, whose numbers are bytes side by side.
inline constexpr int64_t kWordCols = 1, kUnpackedCols = 1;

inline void pack_numbers(const uint8_t* unpacked, int64_t count, bool /*bytes*/, int64_t /*col*/, void* to) {
  std::copy_n(unpacked, count, static_cast<uint8_t*>(to));
}

inline void multiply_panel(const BlockPanel& panel, const PanelRows& rows) {
  for (int64_t r = 0; r < rows.count; ++r) {
    const auto* weights = static_cast<const uint8_t*>(panel.numbers);
    const auto* x = static_cast<const int16_t*>(rows.numbers) + r * rows.stride;
    float& y = rows.y[r * rows.y_stride];
    for (int64_t g = 0; g < panel.groups; ++g) {
      int32_t sum = 0;
      for (int64_t i = 0; i < panel.width; ++i) sum += (*weights++ - panel.zero) * *x++;
      const int64_t own = r * rows.group_stride + (panel.width == 32 ? g : g / 2);
      y += static_cast<float>(sum) * (panel.scales[g] * rows.scales[own]);
      if (panel.offsets != nullptr) y += panel.offsets[g] * rows.shifts[own];
    }
  }
}

#else

inline constexpr int64_t kWordCols = kPanelCols;
// Columns that are unpacked before they are put into a panel.
inline constexpr int64_t kUnpackedCols = kPackedCols;

// Four numbers of each of four columns, transposed.
HWY_INLINE void pack_fours(const uint8_t* from, int64_t count, uint8_t* to) {
  const hn::Full128<uint32_t> fours;
  const hn::Full128<uint64_t> eights;
  for (int64_t i = 0; i < count; i += 16, to += 16 * kVnniCols) {
    hn::Vec<decltype(fours)> column[4];
#pragma GCC unroll 4
    for (int64_t c = 0; c < 4; ++c)
      column[c] = hn::BitCast(fours, hn::LoadU(hn::Full128<uint8_t>(), from + c * kDepth + i));
    const auto both = [&](auto a, auto b) HWY_ATTR {
      return hn::BitCast(hn::Full128<uint8_t>(),
                         hn::InterleaveLower(eights, hn::BitCast(eights, a), hn::BitCast(eights, b)));
    };
    const auto uppers = [&](auto a, auto b) HWY_ATTR {
      return hn::BitCast(hn::Full128<uint8_t>(),
                         hn::InterleaveUpper(eights, hn::BitCast(eights, a), hn::BitCast(eights, b)));
    };
    const auto low01 = hn::InterleaveLower(fours, column[0], column[1]);
    const auto low23 = hn::InterleaveLower(fours, column[2], column[3]);
    const auto high01 = hn::InterleaveUpper(fours, column[0], column[1]);
    const auto high23 = hn::InterleaveUpper(fours, column[2], column[3]);
    hn::StoreU(both(low01, low23), hn::Full128<uint8_t>(), to);
    hn::StoreU(uppers(low01, low23), hn::Full128<uint8_t>(), to + 4 * kVnniCols);
    hn::StoreU(both(high01, high23), hn::Full128<uint8_t>(), to + 8 * kVnniCols);
    hn::StoreU(uppers(high01, high23), hn::Full128<uint8_t>(), to + 12 * kVnniCols);
  }
}

// kUnpackedCols columns, kDepth bytes apart, to the panel's columns from `col` on.
HWY_INLINE void pack_numbers(const uint8_t* unpacked, int64_t count, bool bytes, int64_t col, void* to) {
  if (bytes) {
    for (int64_t c = 0; c < kUnpackedCols; c += 4)
      pack_fours(unpacked + c * kDepth, count, static_cast<uint8_t*>(to) + 4 * (col + c));
    return;
  }
  auto* at = static_cast<int32_t*>(to) + col;
  for (int64_t i = 0; i < count; i += kPackedNumbers, at += kPackedNumbers / 2 * kPanelCols)
    pack_pairs(unpacked + i, kDepth, kUnpackedCols, Full{}, at);
}

template <int R, int kWidth, bool kOffsets>
HWY_NOINLINE void multiply_words(const BlockPanel& panel, const PanelRows& rows) {
  const Sums d;
  const Floats floats;
  const Words words;
  const auto* weights = static_cast<const int32_t*>(panel.numbers);
  const auto* x = static_cast<const int16_t*>(rows.numbers);
  hn::Vec<Floats> y[R][kWordVectors];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kWordVectors; ++v)
      y[r][v] = hn::LoadU(floats, rows.y + r * rows.y_stride + v * kSumLanes);
  }
  for (int64_t g = 0; g < panel.groups; ++g) {
    hn::Vec<Sums> sum[R][kWordVectors], more[R][kWordVectors];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < kWordVectors; ++v) sum[r][v] = more[r][v] = hn::Zero(d);
    }
#pragma GCC unroll 4
    for (int k = 0; k < kWidth; k += 2, weights += kPanelCols, x += 2) {
      hn::Vec<Words> right[kWordVectors];
#pragma GCC unroll 2
      for (int v = 0; v < kWordVectors; ++v)
        right[v] = hn::BitCast(words, hn::LoadU(d, weights + v * kSumLanes));
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        int32_t pair;
        std::memcpy(&pair, x + r * rows.stride, sizeof pair);
        const auto left = hn::BitCast(words, hn::Set(d, pair));
#pragma GCC unroll 2
        for (int v = 0; v < kWordVectors; ++v)
          sum[r][v] = hn::ReorderWidenMulAccumulate(d, left, right[v], sum[r][v], more[r][v]);
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const int32_t* const sums = rows.sums + r * 2 * rows.group_stride;
      const int32_t inputs = kWidth == 32 ? sums[2 * g] + sums[2 * g + 1] : sums[g];
      const auto shift = hn::Set(d, panel.zero * inputs);
      const int64_t own = r * rows.group_stride + (kWidth == 32 ? g : g / 2);
      const auto scale = hn::Set(floats, rows.scales[own]);
#pragma GCC unroll 2
      for (int v = 0; v < kWordVectors; ++v) {
        const int64_t at = g * kPanelCols + v * kSumLanes;
        const auto whole = hn::Sub(hn::RearrangeToOddPlusEven(sum[r][v], more[r][v]), shift);
        y[r][v] = hn::MulAdd(hn::ConvertTo(floats, whole),
                             hn::Mul(hn::LoadU(floats, panel.scales + at), scale), y[r][v]);
        if constexpr (kOffsets) {
          y[r][v] =
              hn::MulAdd(hn::LoadU(floats, panel.offsets + at), hn::Set(floats, rows.shifts[own]), y[r][v]);
        }
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kWordVectors; ++v)
      hn::StoreU(y[r][v], floats, rows.y + r * rows.y_stride + v * kSumLanes);
  }
}

template <int R>
HWY_INLINE void multiply_word_rows(const BlockPanel& panel, const PanelRows& rows) {
  if (panel.width == 16) return multiply_words<R, 16, false>(panel, rows);
  panel.offsets != nullptr ? multiply_words<R, 32, true>(panel, rows)
                           : multiply_words<R, 32, false>(panel, rows);
}

// For panels of words.
HWY_INLINE void multiply_panel(const BlockPanel& panel, const PanelRows& rows) {
  constexpr int64_t kRows = 3;
  PanelRows some = rows;
  while (some.count > 0) {
    const int64_t now = std::min(kRows, some.count);
    now == 3   ? multiply_word_rows<3>(panel, some)
    : now == 2 ? multiply_word_rows<2>(panel, some)
               : multiply_word_rows<1>(panel, some);
    some.count -= now;
    some.numbers = static_cast<const int16_t*>(some.numbers) + now * some.stride;
    some.scales += now * some.group_stride;
    some.shifts += now * some.group_stride;
    some.sums += now * 2 * some.group_stride;
    some.y += now * some.y_stride;
  }
}

#endif

// Unpacks `count` numbers of the columns from `first` on into a panel of `cols` columns, of which `exist` do:
// the last of them stands for the others.
HWY_INLINE BlockPanel pack_panel_of_blocks(const GemmTile& p, const std::byte* first, int64_t exist,
                                           int64_t cols, int64_t count, bool bytes) {
  const Encoding& encoding = encoding_of(p.dtype);
  const int64_t width = group_of(p.dtype), groups = count / width;
  const int64_t blocks = count / layout_of(p.dtype).block;
  const size_t column_bytes = bytes_of(p.dtype, p.w_stride);
  constexpr int64_t kMostCols = std::max(kWordCols, kVnniCols);
  auto* const scales = scratch<float>(Scratch::widened, 2 * kMostGroups * kMostCols);
  float* const offsets = scales + kMostGroups * kMostCols;
  HWY_ALIGN uint8_t numbers[kUnpackedCols * kDepth];
  HWY_ALIGN float own_scales[kMostGroups], own_offsets[kMostGroups];
  for (int64_t col = 0; col < cols; col += kUnpackedCols) {
    for (int64_t c = 0; c < kUnpackedCols; ++c) {
      const auto at = static_cast<size_t>(std::min(col + c, exist - 1));
      encoding.unpack(first + at * column_bytes, blocks, {numbers + c * kDepth, own_scales, own_offsets});
      for (int64_t g = 0; g < groups; ++g) scales[g * cols + col + c] = own_scales[g];
      if (!has_offsets(p.dtype)) continue;
      for (int64_t g = 0; g < groups; ++g) offsets[g * cols + col + c] = own_offsets[g];
    }
    pack_numbers(numbers, count, bytes, col, p.scratch);
  }
  return {.groups = groups,
          .width = width,
          .zero = encoding.zero,
          .numbers = p.scratch,
          .scales = scales,
          .offsets = has_offsets(p.dtype) ? offsets : nullptr};
}

// A part with weights in blocks: p.x is not read.
HWY_INLINE void block_part(const GemmTile& p, bool bytes) {
  const GroupedRows& x = *p.grouped;
  const int64_t cols = bytes ? kVnniCols : kWordCols;
  if (p.first == 0) {
    for (int64_t r = 0; r < p.rows; ++r) {
      float* const y = p.y + r * p.y_stride;
      for (int64_t c = 0; c < p.cols; ++c)
        y[c] = (p.accumulate ? y[c] : 0.0f) + (p.bias != nullptr ? p.bias[c] : 0.0f);
    }
  }
  const int64_t row_groups = x.groups();
  for (int64_t col = 0; col < p.cols; col += cols) {
    const int64_t exist = std::min(cols, p.cols - col);
    const std::byte* const weights =
        static_cast<const std::byte*>(p.w) + static_cast<size_t>(col) * bytes_of(p.dtype, p.w_stride);
    for (int64_t first = p.first; first < p.first + p.depth; first += kDepth) {
      const BlockPanel panel = pack_panel_of_blocks(p, weights + bytes_of(p.dtype, first), exist, cols,
                                                    std::min(kDepth, p.first + p.depth - first), bytes);
      const int64_t group = p.first_row * row_groups + first / GroupedRows::kGroup;
      const int64_t number = p.first_row * x.cols + first;
      PanelRows rows{.count = p.rows,
                     .numbers = bytes
                                    ? static_cast<const void*>(static_cast<const int8_t*>(x.numbers) + number)
                                    : static_cast<const int16_t*>(x.numbers) + number,
                     .stride = x.cols,
                     .scales = x.scales + group,
                     .shifts = x.shifts + group,
                     .sums = x.sums + 2 * group,
                     .group_stride = row_groups,
                     .y = p.y + col,
                     .y_stride = p.y_stride};
      const auto multiply = [&] { bytes ? multiply_panel_vnni(panel, rows) : multiply_panel(panel, rows); };
      if (exist == cols) {
        multiply();
        continue;
      }
      constexpr int64_t kMostCols = std::max(kWordCols, kVnniCols);
      HWY_ALIGN float y[kPartRows * kMostCols];
      for (int64_t r = 0; r < p.rows; ++r) std::copy_n(rows.y + r * p.y_stride, exist, y + r * cols);
      rows.y = y;
      rows.y_stride = cols;
      multiply();
      for (int64_t r = 0; r < p.rows; ++r) std::copy_n(y + r * cols, exist, p.y + col + r * p.y_stride);
    }
  }
}

}  // namespace qkv::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
