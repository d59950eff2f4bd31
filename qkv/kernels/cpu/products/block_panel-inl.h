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
#include "qkv/kernels/cpu/products/block_row-inl.h"
#include "qkv/kernels/cpu/products/gemm_nt.h"
#include "qkv/kernels/cpu/products/int8_rows-inl.h"
#include "qkv/kernels/cpu/products/scratch.h"
#include "qkv/kernels/cpu/products/unpack_blocks-inl.h"
#include "qkv/kernels/cpu/products/unpack_columns-inl.h"
#include "qkv/kernels/cpu/row-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::kernels::HWY_NAMESPACE {

// How a panel holds numbers, and the inputs that it is multiplied by: pairs of words, or four bytes of each
// column side by side, for AVX-512 VNNI or other instructions of x86.
enum class Packing : uint8_t { words, bytes, vnni };

// Sums of two products of bytes fit into 16 bits if the numbers have up to 6 bits, or 8 with a sign.
inline constexpr int kMostBits = kUnpacksColumns ? 8 : 6;

inline constexpr int64_t kMostGroups = kDepth / 16;  // of a panel's column

#if HWY_TARGET == HWY_SCALAR

// One column, whose numbers are bytes side by side.
inline constexpr int64_t kWordCols = 1;

inline void pack_numbers(const uint8_t* unpacked, int64_t /*stride*/, int64_t count, Packing /*packing*/,
                         void* to) {
  std::copy_n(unpacked, count, static_cast<uint8_t*>(to));
}
inline void transpose(const float* from, int64_t /*stride*/, int64_t /*cols*/, int64_t count, float* to) {
  std::copy_n(from, count, to);
}

inline void multiply_panel(const BlockPanel& panel, const PanelRows& rows, Packing /*packing*/) {
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

// to[i * cols + c] = from[c * stride + i], for four numbers at a time: up to three past `count` are written.
template <class Number>
HWY_INLINE void transpose(const Number* from, int64_t stride, int64_t cols, int64_t count, Number* to) {
  const hn::Full128<Number> fours;
  const hn::Full128<double> twos;
  for (int64_t c = 0; c < cols; c += 4) {
    for (int64_t i = 0; i < count; i += 4) {
      const Number* const at = from + c * stride + i;
      const auto a = hn::LoadU(fours, at), b = hn::LoadU(fours, at + stride);
      const auto e = hn::LoadU(fours, at + 2 * stride), f = hn::LoadU(fours, at + 3 * stride);
      const auto low01 = hn::BitCast(twos, hn::InterleaveLower(fours, a, b));
      const auto low23 = hn::BitCast(twos, hn::InterleaveLower(fours, e, f));
      const auto high01 = hn::BitCast(twos, hn::InterleaveUpper(fours, a, b));
      const auto high23 = hn::BitCast(twos, hn::InterleaveUpper(fours, e, f));
      Number* const out = to + i * cols + c;
      hn::StoreU(hn::BitCast(fours, hn::InterleaveLower(twos, low01, low23)), fours, out);
      hn::StoreU(hn::BitCast(fours, hn::InterleaveUpper(twos, low01, low23)), fours, out + cols);
      hn::StoreU(hn::BitCast(fours, hn::InterleaveLower(twos, high01, high23)), fours, out + 2 * cols);
      hn::StoreU(hn::BitCast(fours, hn::InterleaveUpper(twos, high01, high23)), fours, out + 3 * cols);
    }
  }
}

// Puts columns, `stride` bytes apart, into a panel. Requires a count that is a multiple of 16.
HWY_INLINE void pack_numbers(const uint8_t* unpacked, int64_t stride, int64_t count, Packing packing,
                             void* to) {
  if (packing == Packing::vnni) return pack_bytes_vnni(unpacked, stride, count, static_cast<uint8_t*>(to));
  if (packing == Packing::bytes) {
    return transpose(reinterpret_cast<const uint32_t*>(unpacked), stride / 4, kPanelCols, count / 4,
                     static_cast<uint32_t*>(to));
  }
  for (int64_t col = 0; col < kPanelCols; col += kPackedCols) {
    auto* at = static_cast<int32_t*>(to) + col;
    for (int64_t i = 0; i < count; i += kPackedNumbers, at += kPackedNumbers / 2 * kPanelCols)
      pack_pairs(unpacked + col * stride + i, stride, kPackedCols, Full{}, at);
  }
}

// A row's inputs in group g of a panel, of `width` numbers.
class GroupOfRow {
 public:
  HWY_INLINE GroupOfRow(const BlockPanel& panel, const PanelRows& rows, int width, int64_t g, int64_t r)
      : panel_(panel), place_(r * rows.group_stride + (width == 32 ? g : g / 2)), rows_(rows) {
    const int32_t* const sums = rows.sums + r * 2 * rows.group_stride;
    const int32_t inputs = width == 32 ? sums[2 * g] + sums[2 * g + 1] : sums[g];
    shift_ = hn::Set(Sums(), panel.zero * inputs);
    scale_ = hn::Set(Floats(), rows.scales[place_]);
  }

  // y + the group's part, of integer sums of the columns whose scales begin at `at`. kZero: the panel's zero
  // may be another number than 0, which those with offsets are without.
  template <bool kOffsets, bool kZero = !kOffsets>
  HWY_INLINE hn::Vec<Floats> add(hn::Vec<Sums> sums, int64_t at, hn::Vec<Floats> y) const {
    const Floats floats;
    if constexpr (kZero) sums = hn::Sub(sums, shift_);
    y = hn::MulAdd(hn::ConvertTo(floats, sums), hn::Mul(hn::LoadU(floats, panel_.scales + at), scale_), y);
    if constexpr (kOffsets)
      y = hn::MulAdd(hn::LoadU(floats, panel_.offsets + at), hn::Set(floats, rows_.shifts[place_]), y);
    return y;
  }

 private:
  const BlockPanel& panel_;
  int64_t place_;
  const PanelRows& rows_;
  hn::Vec<Sums> shift_;
  hn::Vec<Floats> scale_;
};

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
      const GroupOfRow group(panel, rows, kWidth, g, r);
#pragma GCC unroll 2
      for (int v = 0; v < kWordVectors; ++v) {
        const auto whole = hn::RearrangeToOddPlusEven(sum[r][v], more[r][v]);
        y[r][v] = group.add<kOffsets>(whole, g * kPanelCols + v * kSumLanes, y[r][v]);
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

// Bytes of kBits, 8 with a sign: the sums of as many steps of four numbers as fit stay in 16 bits.
template <int R, int kBits, int kWidth, bool kOffsets>
HWY_NOINLINE void multiply_bytes(const BlockPanel& panel, const PanelRows& rows) {
  constexpr bool kSigned = kBits == 8, kZero = !kSigned && !kOffsets;
  constexpr int kPair = 2 * (kSigned ? 128 : (1 << kBits) - 1) * 127, kSteps = products_together(kBits);
  static_assert(kSteps * kPair <= INT16_MAX && kWidth % (4 * kSteps) == 0);
  const Sums d;
  const Floats floats;
  const Words words;
  const auto* weights = static_cast<const int32_t*>(panel.numbers);
  const auto* x = static_cast<const int8_t*>(rows.numbers);
  const auto ones = hn::Set(words, int16_t{1});
  for (int64_t g = 0; g < panel.groups; ++g) {
    hn::Vec<Sums> sum[R][kWordVectors];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < kWordVectors; ++v) sum[r][v] = hn::Zero(d);
    }
// Loops: GCC 12 would add the products of all steps as a tree, which takes more registers than there are.
#pragma GCC unroll 1
    for (int first = 0; first < kWidth; first += 4 * kSteps) {
      hn::Vec<Words> some[R][kWordVectors];
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
        for (int v = 0; v < kWordVectors; ++v) some[r][v] = hn::Zero(words);
      }
#pragma GCC unroll 1
      for (int step = 0; step < kSteps; ++step, weights += kPanelCols, x += 4) {
        hn::Vec<Sums> left[kWordVectors];
#pragma GCC unroll 2
        for (int v = 0; v < kWordVectors; ++v) left[v] = hn::LoadU(d, weights + v * kSumLanes);
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) {
          const auto right = four_inputs(x + r * rows.stride);
#pragma GCC unroll 2
          for (int v = 0; v < kWordVectors; ++v) {
            some[r][v] = hn::Add(some[r][v], products_of<kSigned>(left[v], right));
          }
        }
      }
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
        for (int v = 0; v < kWordVectors; ++v) {
          auto unused = hn::Zero(d);  // x86 adds all products to the first sums
          sum[r][v] = hn::ReorderWidenMulAccumulate(d, some[r][v], ones, sum[r][v], unused);
        }
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const GroupOfRow group(panel, rows, kWidth, g, r);
#pragma GCC unroll 2
      for (int v = 0; v < kWordVectors; ++v) {
        float* const to = rows.y + r * rows.y_stride + v * kSumLanes;
        const auto y = hn::LoadU(floats, to);
        const auto sums = group.add<kOffsets, kZero>(sum[r][v], g * kPanelCols + v * kSumLanes, y);
        hn::StoreU(sums, floats, to);
      }
    }
  }
}

template <int R>
HWY_INLINE void multiply_byte_rows(const BlockPanel& panel, const PanelRows& rows) {
  const bool offsets = panel.offsets != nullptr;
  if constexpr (kUnpacksColumns) {
    if (panel.bits == 8) return multiply_bytes<R, 8, 32, false>(panel, rows);
  }
  if (panel.bits == 6) return multiply_bytes<R, 6, 16, false>(panel, rows);
  if (panel.bits == 5)
    return offsets ? multiply_bytes<R, 5, 32, true>(panel, rows)
                   : multiply_bytes<R, 5, 32, false>(panel, rows);
  offsets ? multiply_bytes<R, 4, 32, true>(panel, rows) : multiply_bytes<R, 4, 32, false>(panel, rows);
}

template <bool kBytes, int R>
HWY_INLINE void multiply_some_rows(const BlockPanel& panel, const PanelRows& rows) {
  if constexpr (kBytes) {
    multiply_byte_rows<R>(panel, rows);
  } else {
    multiply_word_rows<R>(panel, rows);
  }
}

template <bool kBytes>
HWY_INLINE void multiply_rows(const BlockPanel& panel, PanelRows& some) {
  constexpr int64_t kRows = 3;
  while (some.count > 0) {
    const int64_t now = std::min(kRows, some.count);
    now == 3   ? multiply_some_rows<kBytes, 3>(panel, some)
    : now == 2 ? multiply_some_rows<kBytes, 2>(panel, some)
               : multiply_some_rows<kBytes, 1>(panel, some);
    some.drop(now, kBytes ? sizeof(int8_t) : sizeof(int16_t));
  }
}

// Drops the rows.
HWY_INLINE void multiply_panel(const BlockPanel& panel, PanelRows& rows, Packing packing) {
  if (packing == Packing::vnni) return multiply_panel_vnni(panel, rows);
  if constexpr (kAddsBytes) {
    if (packing == Packing::bytes) return multiply_rows<true>(panel, rows);
  }
  multiply_rows<false>(panel, rows);
}

#endif

#if HWY_TARGET == HWY_SCALAR || (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3)

// A tile's columns before and after they are put into a panel.
struct Columns {
  static constexpr int64_t kMost = std::max(kWordCols, kVnniCols);
  static constexpr int64_t kStride =
      kDepth + 64;  // a power of two would map the columns to few sets of the cache
  uint8_t numbers[kMost * kStride];
  float scales[kMost * kMostGroups], offsets[kMost * kMostGroups];
  float panel_scales[kMost * kMostGroups], panel_offsets[kMost * kMostGroups];
};

// Unpacks `count` numbers of columns from `first` on into a panel. Of its `cols` columns, those from `col`
// on, p.cols - col may exist: the last of them stands for the others.
HWY_INLINE BlockPanel pack_panel_of_blocks(const GemmTile& p, int64_t col, int64_t cols, int64_t first,
                                           int64_t count, Packing packing) {
  const Encoding& encoding = encoding_of(p.dtype);
  const int64_t exist = std::min(cols, p.cols - col);
  const int64_t next = std::clamp<int64_t>(p.cols - col - cols, 0, cols);  // columns after them
  const int64_t width = group_of(p.dtype), groups = count / width;
  const int64_t blocks = count / layout_of(p.dtype).block;
  const size_t column_bytes = bytes_of(p.dtype, p.w_stride), run = bytes_of(p.dtype, count);
  const std::byte* const begin = static_cast<const std::byte*>(p.w) + bytes_of(p.dtype, first);
  Columns& own = *scratch<Columns>(Scratch::widened, 1);
  const bool directly = packing == Packing::vnni && packs_blocks(p.dtype);
  const std::byte* columns[Columns::kMost];
  for (int64_t c = 0; c < cols; ++c) {
    const std::byte* const from = begin + static_cast<size_t>(col + std::min(c, exist - 1)) * column_bytes;
    if (c < next) {  // short runs of many columns: the processor does not foresee the next ones
      for (size_t line = 0; line < run; line += 64)
        __builtin_prefetch(from + static_cast<size_t>(cols) * column_bytes + line, 0, 2);
    }
    columns[c] = from;
    const auto unpack = directly ? encoding.unpack_scales : encoding.unpack;
    unpack(from, blocks, own.numbers + c * Columns::kStride, own.scales + c * kMostGroups,
           own.offsets + c * kMostGroups);
  }
  if (directly) {
    pack_blocks_vnni(p.dtype, columns, groups, reinterpret_cast<uint8_t*>(p.scratch));
  } else {
    pack_numbers(own.numbers, Columns::kStride, count, packing, p.scratch);
  }
  transpose(own.scales, kMostGroups, cols, groups, own.panel_scales);
  if (has_offsets(p.dtype)) transpose(own.offsets, kMostGroups, cols, groups, own.panel_offsets);
  return {.groups = groups,
          .width = width,
          .bits = encoding.bits,
          .zero = encoding.zero,
          .numbers = p.scratch,
          .scales = own.panel_scales,
          .offsets = has_offsets(p.dtype) ? own.panel_offsets : nullptr};
}

#else

// The columns of a panel.
struct Columns {
  static constexpr int64_t kMost = kPanelCols;
  const std::byte* at[kMost];
  float scales[kMost * kMostGroups], offsets[kMost * kMostGroups];
};

// Columns from `col` on, from number `first` on. Past the last column, the last one is read again. Prefetches
// the `cols` columns after them: the next one's part of each, or, if whole columns are read, as these pass
// through memory from its beginning to its end, the place as much further on.
template <int64_t kCols>
HWY_INLINE SomeColumns columns_of(const GemmTile& p, int64_t col, int64_t first, int64_t count,
                                  const std::byte** at) {
  const size_t column_bytes = bytes_of(p.dtype, p.w_stride), start = bytes_of(p.dtype, first);
  const auto* const weights = static_cast<const std::byte*>(p.w);
  for (int64_t c = 0; c < kCols; ++c)
    at[c] = weights + static_cast<size_t>(std::min(col + c, p.cols - 1)) * column_bytes + start;
  SomeColumns columns{.at = at, .blocks = count / layout_of(p.dtype).block};
  const bool last = col + kCols >= p.cols;
  if (p.depth < p.inner) {
    const int64_t next = std::clamp<int64_t>(p.cols - col - kCols, 0, kCols);
    for (int64_t c = 0; c < next; ++c) {
      for (size_t line = 0; line < bytes_of(p.dtype, count); line += 64)
        __builtin_prefetch(at[c] + static_cast<size_t>(kCols) * column_bytes + line, 0, 2);
    }
  } else if (!last || p.following != nullptr) {
    const std::byte* const next = last ? static_cast<const std::byte*>(p.following)
                                       : weights + static_cast<size_t>(col + kCols) * column_bytes;
    columns.ahead = next + static_cast<size_t>(kCols) * start;
    columns.ahead_bytes = layout_of(p.dtype).bytes * static_cast<size_t>(kSumLanes);
  }
  return columns;
}

// Unpacks `count` numbers of columns from `first` on into a panel of `cols` columns, those from `col` on.
HWY_INLINE BlockPanel pack_panel_of_blocks(const GemmTile& p, int64_t col, int64_t /*cols*/, int64_t first,
                                           int64_t count, Packing /*packing*/) {
  const Encoding& encoding = encoding_of(p.dtype);
  const int64_t width = group_of(p.dtype);
  Columns& own = *scratch<Columns>(Scratch::widened, 1);
  SomeColumns some = columns_of<kPanelCols>(p, col, first, count, own.at);
  some.numbers = p.scratch;
  some.scales = own.scales;
  some.offsets = own.offsets;
  for (int64_t c = 0; c < kPanelCols; c += kSumLanes) {
    encoding.unpack(some);
    some.at += kSumLanes;
    some.numbers = static_cast<float*>(some.numbers) + kSumLanes;
    some.scales += kSumLanes;
    some.offsets += kSumLanes;
    some.ahead += some.ahead_bytes * static_cast<size_t>(some.blocks);
  }
  return {.groups = count / width,
          .width = width,
          .bits = encoding.bits,
          .zero = encoding.zero,
          .numbers = p.scratch,
          .scales = own.scales,
          .offsets = has_offsets(p.dtype) ? own.offsets : nullptr};
}

#endif

// The inputs from number `first` on, and the results from column `col` on.
HWY_INLINE PanelRows rows_of_part(const GemmTile& p, int64_t col, int64_t first, bool bytes) {
  const GroupedRows& x = *p.grouped;
  const int64_t group = p.first_row * x.groups() + first / GroupedRows::kGroup;
  const int64_t number = p.first_row * x.cols + first;
  return {.count = p.rows,
          .numbers = bytes ? static_cast<const void*>(static_cast<const int8_t*>(x.numbers) + number)
                           : static_cast<const int16_t*>(x.numbers) + number,
          .stride = x.cols,
          .scales = x.scales + group,
          .shifts = x.shifts + group,
          .sums = x.sums + 2 * group,
          .group_stride = x.groups(),
          .y = p.y + col,
          .y_stride = p.y_stride};
}

// Calls multiply(rows) for results of `cols` columns, of which `exist` do.
template <class Multiply>
HWY_INLINE void multiply_existing(PanelRows rows, int64_t cols, int64_t exist, const Multiply& multiply) {
  if (exist == cols) return multiply(rows);
  HWY_ALIGN float y[kPartRows * Columns::kMost];
  const PanelRows own = rows;
  for (int64_t r = 0; r < own.count; ++r) std::copy_n(own.y + r * own.y_stride, exist, y + r * cols);
  rows.y = y;
  rows.y_stride = cols;
  multiply(rows);
  for (int64_t r = 0; r < own.count; ++r) std::copy_n(y + r * cols, exist, own.y + r * own.y_stride);
}

#if HWY_TARGET == HWY_SSE4 || HWY_TARGET == HWY_AVX2
HWY_INLINE void multiply_one_row(const GemmTile& p) {
  const MultiplyRow multiply = multiply_row_of(p.dtype);
  for (int64_t col = 0; col < p.cols; col += kSumLanes) {
    const std::byte* at[kSumLanes];
    const SomeColumns columns = columns_of<kSumLanes>(p, col, p.first, p.depth, at);
    multiply_existing(rows_of_part(p, col, p.first, true), kSumLanes, std::min(kSumLanes, p.cols - col),
                      [&](PanelRows& row) HWY_ATTR { multiply(columns, row); });
  }
}
#endif

// A part with weights in blocks: p.x is not read.
HWY_INLINE void block_part(const GemmTile& p, Packing packing) {
  const bool bytes = packing != Packing::words;
  if (p.first == 0) {
    for (int64_t r = 0; r < p.rows; ++r) {
      float* const y = p.y + r * p.y_stride;
      for (int64_t c = 0; c < p.cols; ++c)
        y[c] = (p.accumulate ? y[c] : 0.0f) + (p.bias != nullptr ? p.bias[c] : 0.0f);
    }
  }
#if HWY_TARGET == HWY_SSE4 || HWY_TARGET == HWY_AVX2
  if (p.rows == 1) return multiply_one_row(p);
#endif
  const int64_t cols = packing == Packing::vnni ? kVnniCols : kWordCols;
  for (int64_t col = 0; col < p.cols; col += cols) {
    for (int64_t first = p.first; first < p.first + p.depth; first += kDepth) {
      const BlockPanel panel =
          pack_panel_of_blocks(p, col, cols, first, std::min(kDepth, p.first + p.depth - first), packing);
      multiply_existing(rows_of_part(p, col, first, bytes), cols, std::min(cols, p.cols - col),
                        [&](PanelRows& rows) HWY_ATTR { multiply_panel(panel, rows, packing); });
    }
  }
}

}  // namespace qkv::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
