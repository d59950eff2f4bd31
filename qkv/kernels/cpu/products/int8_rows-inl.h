// Sums of products of 8-bit rows with rows of 8-bit weights, for any instructions. Included once per Highway
// target. Integer sums have no order: both methods, AMX and VNNI (int8_sums.h) give the same bits.

#if defined(QKV_KERNELS_CPU_PRODUCTS_INT8_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_KERNELS_CPU_PRODUCTS_INT8_ROWS_INL_H_
#undef QKV_KERNELS_CPU_PRODUCTS_INT8_ROWS_INL_H_
#else
#define QKV_KERNELS_CPU_PRODUCTS_INT8_ROWS_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

#include "qkv/kernels/cpu/products/gemm_nt.h"
#include "qkv/kernels/cpu/products/int8_sums.h"
#include "qkv/kernels/cpu/products/scratch.h"
#include "qkv/kernels/cpu/row-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::kernels::HWY_NAMESPACE {

// 16-bit factors, whose products are added in pairs to 32-bit sums. Some machines add half of the products
// to a second vector of sums, here `more`.
using Words = hn::ScalableTag<int16_t>;
using Sums = hn::ScalableTag<int32_t>;

#if HWY_TARGET != HWY_SCALAR
template <class D, class V>
HWY_INLINE auto add_halves(D /*d*/, V v) {
  if constexpr (hn::MaxLanes(D()) > 4) {
    const hn::Half<D> half;
    return add_halves(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  } else {
    return v;
  }
}
#endif

// to[i] = sum of the lanes of the i-th vector.
template <class D, class V>
HWY_INLINE void store_sums_of_lanes(D d, V a, V b, V c, V e, hn::TFromD<D>* to) {
#if HWY_TARGET == HWY_SCALAR
  hn::Store(a, d, to);
  hn::Store(b, d, to + 1);
  hn::Store(c, d, to + 2);
  hn::Store(e, d, to + 3);
#else
  const hn::RepartitionToWide<D> wide;
  const auto ab = hn::Add(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b));
  const auto ce = hn::Add(hn::InterleaveLower(d, c, e), hn::InterleaveUpper(d, c, e));
  const auto low = hn::InterleaveLower(wide, hn::BitCast(wide, ab), hn::BitCast(wide, ce));
  const auto high = hn::InterleaveUpper(wide, hn::BitCast(wide, ab), hn::BitCast(wide, ce));
  const auto sums = hn::Add(hn::BitCast(d, low), hn::BitCast(d, high));
  hn::StoreU(add_halves(d, sums), hn::FixedTag<hn::TFromD<D>, 4>(), to);
#endif
}

// Few rows: weights in place, and 8-bit numbers widened in registers.

template <int R, int C, class P>
HWY_INLINE void byte_step(const uint8_t* q, int64_t q_stride, const int8_t* const* w, int64_t i, P part,
                          hn::Vec<Sums> (&sum)[R][C], hn::Vec<Sums> (&more)[R][C]) {
  const Words words;
  const hn::Rebind<uint8_t, Words> unsigned_bytes;
  const hn::Rebind<int8_t, Words> signed_bytes;
  hn::Vec<Words> left[R];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r)
    left[r] = hn::PromoteTo(words, load(unsigned_bytes, q + r * q_stride + i, part));
#pragma GCC unroll 8
  for (int c = 0; c < C; ++c) {
    const auto right = hn::PromoteTo(words, load(signed_bytes, w[c] + i, part));
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r)
      sum[r][c] = hn::ReorderWidenMulAccumulate(Sums(), left[r], right, sum[r][c], more[r][c]);
  }
}

// Prefetches the next but one columns, those from c_begin to c_end: the next ones' weights would often come
// too late.
template <int R, int C>
HWY_NOINLINE void byte_tile(const uint8_t* q, int64_t q_stride, const int8_t* const* w, int64_t w_stride,
                            int64_t inner, int64_t c_begin, int64_t c_end, int32_t* sums) {
  const Sums d;
  constexpr int64_t kLine = 64;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(Words()));
  hn::Vec<Sums> sum[R][C], more[R][C];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) sum[r][c] = more[r][c] = hn::Zero(d);
  }
  int64_t i = 0;
  if (c_begin < c_end) {
    for (; i + kLine <= inner; i += kLine) {
      for (int64_t c = c_begin; c < c_end; ++c) __builtin_prefetch(w[c] + i + 2 * C * w_stride, 0, 2);
      for (int64_t k = i; k < i + kLine; k += lanes) byte_step<R, C>(q, q_stride, w, k, Full{}, sum, more);
    }
  }
  for (; i + lanes <= inner; i += lanes) byte_step<R, C>(q, q_stride, w, i, Full{}, sum, more);
  if (i < inner) byte_step<R, C>(q, q_stride, w, i, Part{static_cast<size_t>(inner - i)}, sum, more);
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int c = 0; c < C; c += 4) {
      const auto whole = [&](int n) HWY_ATTR { return hn::Add(sum[r][c + n], more[r][c + n]); };
      store_sums_of_lanes(d, whole(0), whole(1), whole(2), whole(3), sums + r * kPartCols + c);
    }
  }
}

HWY_INLINE void sums_in_place(const GemmTile& p, int32_t* sums) {
  constexpr int kCols = 4;
  const auto* const weights = static_cast<const int8_t*>(p.w);
  for (int64_t col = 0; col < p.cols; col += kCols) {
    const int8_t* w[kCols];
    for (int64_t c = 0; c < kCols; ++c) w[c] = weights + std::min(col + c, p.cols - 1) * p.w_stride;
    for (int64_t row = 0; row < p.rows; row += 2) {
      const uint8_t* const q = p.q + row * p.q_stride;
      int32_t* const to = sums + row * kPartCols + col;
      // All rows share the prefetching, so that the memory is never idle.
      const int64_t c_begin = kCols * row / p.rows, c_end = kCols * std::min(row + 2, p.rows) / p.rows;
      if (row + 1 < p.rows) {
        byte_tile<2, kCols>(q, p.q_stride, w, p.w_stride, p.inner, c_begin, c_end, to);
      } else {
        byte_tile<1, kCols>(q, p.q_stride, w, p.w_stride, p.inner, c_begin, c_end, to);
      }
    }
  }
}

// More rows: both operands as words, in pairs of the inner dimension, one 32-bit number each. A pair of a row
// is multiplied by that of several columns side by side, which are packed into a panel: pairs 0 of all its
// columns, pairs 1 of all, and so on, in the L1 cache while the rows pass.

#if HWY_TARGET == HWY_SCALAR

inline constexpr bool kHasPanels = false;
inline void sums_in_panels(const GemmTile& /*p*/, int32_t* /*sums*/) {}

#else

inline constexpr bool kHasPanels = true;
inline constexpr int kWordRows = 6, kWordVectors = 2;
inline constexpr int64_t kSumLanes = static_cast<int64_t>(hn::MaxLanes(Sums()));
inline constexpr int64_t kPanelCols = kWordVectors * kSumLanes, kPanelPairs = 256;
// Columns that are packed at a time, and their numbers: words of 16 bytes.
inline constexpr int64_t kPackedCols = 8, kPackedNumbers = 16;
static_assert(kPanelCols % kPackedCols == 0 && kPartCols % kPanelCols == 0);

template <class Byte, class D>
HWY_INLINE void store_widened(D words, hn::Vec<hn::Full128<Byte> > bytes, int32_t* to) {
  auto* const at = reinterpret_cast<int16_t*>(to);
  if constexpr (hn::MaxLanes(D()) == kPackedNumbers) {
    hn::StoreU(hn::PromoteTo(words, bytes), words, at);
  } else {
    const hn::Rebind<Byte, D> half;
    hn::StoreU(hn::PromoteTo(words, hn::LowerHalf(half, bytes)), words, at);
    hn::StoreU(hn::PromoteTo(words, hn::UpperHalf(half, bytes)), words, at + kPackedNumbers / 2);
  }
}

// Eight numbers of pairs of eight columns, transposed and widened: to[j * kPanelCols + c] is pair j of column
// c. The columns from `count` on are the last one again.
template <class Byte, class P>
HWY_INLINE void pack_pairs(const Byte* w, int64_t w_stride, int64_t count, P part, int32_t* to) {
  const hn::CappedTag<int16_t, kPackedNumbers> words;
  const hn::Full128<Byte> bytes;
  const hn::Full128<uint16_t> pairs;
  const hn::Full128<uint32_t> twos;
  const hn::Full128<uint64_t> fours;
  hn::Vec<decltype(pairs)> column[kPackedCols];
#pragma GCC unroll 8
  for (int64_t c = 0; c < kPackedCols; ++c)
    column[c] = hn::BitCast(pairs, load(bytes, w + std::min(c, count - 1) * w_stride, part));
  // Of the columns 4 g to 4 g + 3: two pairs each.
  hn::Vec<decltype(fours)> group[2][4];
#pragma GCC unroll 2
  for (int g = 0; g < 2; ++g) {
    const auto* const c = column + 4 * g;
    const auto low01 = hn::BitCast(twos, hn::InterleaveLower(pairs, c[0], c[1]));
    const auto low23 = hn::BitCast(twos, hn::InterleaveLower(pairs, c[2], c[3]));
    const auto high01 = hn::BitCast(twos, hn::InterleaveUpper(pairs, c[0], c[1]));
    const auto high23 = hn::BitCast(twos, hn::InterleaveUpper(pairs, c[2], c[3]));
    group[g][0] = hn::BitCast(fours, hn::InterleaveLower(twos, low01, low23));
    group[g][1] = hn::BitCast(fours, hn::InterleaveUpper(twos, low01, low23));
    group[g][2] = hn::BitCast(fours, hn::InterleaveLower(twos, high01, high23));
    group[g][3] = hn::BitCast(fours, hn::InterleaveUpper(twos, high01, high23));
  }
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    store_widened<Byte>(words, hn::BitCast(bytes, hn::InterleaveLower(fours, group[0][j], group[1][j])),
                        to + 2 * j * kPanelCols);
    store_widened<Byte>(words, hn::BitCast(bytes, hn::InterleaveUpper(fours, group[0][j], group[1][j])),
                        to + (2 * j + 1) * kPanelCols);
  }
}

// `numbers` of kPanelCols columns, of which `cols` exist; zero-padded to a multiple of kPackedNumbers.
HWY_INLINE void pack_panel(const int8_t* w, int64_t w_stride, int64_t cols, int64_t numbers, int32_t* panel) {
  for (int64_t col = 0; col < kPanelCols; col += kPackedCols) {
    const int64_t count = std::min(kPackedCols, cols - col);
    if (count <= 0) return;  // nobody reads the sums of these columns
    const int8_t* const from = w + col * w_stride;
    int32_t* to = panel + col;
    int64_t i = 0;
    for (; i + kPackedNumbers <= numbers; i += kPackedNumbers, to += kPackedNumbers / 2 * kPanelCols)
      pack_pairs(from + i, w_stride, count, Full{}, to);
    if (i < numbers) pack_pairs(from + i, w_stride, count, Part{static_cast<size_t>(numbers - i)}, to);
  }
}

// Whether pairs are in the order of the columns before RearrangeToOddPlusEven: x86 adds them at once.
inline constexpr bool kPairsInOrder = HWY_ARCH_X86 != 0;

// R rows by the columns of a panel; a row of pairs begins every `stride` pairs. Sums to add to are the first
// terms where possible: if they are the last ones, GCC 12 keeps the others in memory.
template <int R, bool kAdd>
HWY_NOINLINE void word_tile(const int32_t* q, int64_t stride, const int32_t* panel, int64_t pairs,
                            int32_t* sums) {
  const Sums d;
  const Words words;
  hn::Vec<Sums> sum[R][kWordVectors], more[R][kWordVectors];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kWordVectors; ++v) {
      sum[r][v] = more[r][v] = hn::Zero(d);
      if constexpr (kAdd && kPairsInOrder) sum[r][v] = hn::LoadU(d, sums + r * kPartCols + v * kSumLanes);
    }
  }
  for (int64_t i = 0; i < pairs; ++i, panel += kPanelCols) {
    hn::Vec<Words> right[kWordVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kWordVectors; ++v) right[v] = hn::BitCast(words, hn::LoadU(d, panel + v * kSumLanes));
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const auto left = hn::BitCast(words, hn::Set(d, q[r * stride + i]));
#pragma GCC unroll 2
      for (int v = 0; v < kWordVectors; ++v)
        sum[r][v] = hn::ReorderWidenMulAccumulate(d, left, right[v], sum[r][v], more[r][v]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kWordVectors; ++v) {
      int32_t* const to = sums + r * kPartCols + v * kSumLanes;
      auto whole = hn::RearrangeToOddPlusEven(sum[r][v], more[r][v]);
      if constexpr (kAdd && !kPairsInOrder) whole = hn::Add(hn::LoadU(d, to), whole);
      hn::StoreU(whole, d, to);
    }
  }
}

template <int R, bool kAdd>
HWY_INLINE void word_tile_of(int64_t rows, const int32_t* q, int64_t stride, const int32_t* panel,
                             int64_t pairs, int32_t* sums) {
  if constexpr (R > 1) {
    if (rows < R) return word_tile_of<R - 1, kAdd>(rows, q, stride, panel, pairs, sums);
  }
  word_tile<R, kAdd>(q, stride, panel, pairs, sums);
}

// Writes sums up to the next multiple of kPanelCols columns.
HWY_INLINE void sums_in_panels(const GemmTile& p, int32_t* sums) {
  constexpr int64_t kNumbers = 2 * kPanelPairs, kLine = 64;
  int32_t* const panel = scratch<int32_t>(Scratch::tile, kPanelPairs * kPanelCols);
  const auto* const q = reinterpret_cast<const int32_t*>(p.q);
  const int64_t stride = p.q_stride / static_cast<int64_t>(sizeof(int32_t));
  const int64_t parts = (p.rows + kWordRows - 1) / kWordRows;
  for (int64_t first = 0; first < p.inner; first += kNumbers) {
    const int64_t numbers = std::min(kNumbers, p.inner - first);
    // Rows and panel are padded with zeros.
    const int64_t pairs = (numbers + kPackedNumbers - 1) / kPackedNumbers * (kPackedNumbers / 2);
    const int8_t* const w = static_cast<const int8_t*>(p.w) + first;
    for (int64_t col = 0; col < p.cols; col += kPanelCols) {
      pack_panel(w + col * p.w_stride, p.w_stride, p.cols - col, numbers, panel);
      // The next panel, prefetched with the tiles of rows.
      const bool ends = col + kPanelCols >= p.cols;
      const int8_t* const next = ends ? w + kNumbers : w + (col + kPanelCols) * p.w_stride;
      const int64_t lines = (numbers + kLine - 1) / kLine;
      for (int64_t part = 0; part < parts; ++part) {
        const int64_t row = p.rows * part / parts, end = p.rows * (part + 1) / parts;
        for (int64_t c = kPanelCols * part / parts; c < kPanelCols * (part + 1) / parts; ++c) {
          for (int64_t line = 0; line < lines; ++line)
            __builtin_prefetch(next + c * p.w_stride + line * kLine, 0, 2);
        }
        const int32_t* const from = q + row * stride + first / 2;
        int32_t* const to = sums + row * kPartCols + col;
        if (first == 0) {
          word_tile_of<kWordRows, false>(end - row, from, stride, panel, pairs, to);
        } else {
          word_tile_of<kWordRows, true>(end - row, from, stride, panel, pairs, to);
        }
      }
    }
  }
}

#endif  // HWY_SCALAR

}  // namespace qkv::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
