// Products of f32 rows with rows of f32, bf16 or f16 weights. Included once per Highway target.
//
// An element of the result is the sum of four chains of multiply-adds: chain c processes the numbers c, c +
// 4, c + 8, ... of a block of kDepth of the inner dimension, in order; then (c0 + c1) + (c2 + c3), and the
// blocks are added in order. Four numbers fill the narrowest vector, so wider ones compute several columns
// side by side, and all machines with fused multiply-adds give the same bits.

#if defined(QKV_KERNELS_CPU_PRODUCTS_FLOAT_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_KERNELS_CPU_PRODUCTS_FLOAT_ROWS_INL_H_
#undef QKV_KERNELS_CPU_PRODUCTS_FLOAT_ROWS_INL_H_
#else
#define QKV_KERNELS_CPU_PRODUCTS_FLOAT_ROWS_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

#include "qkv/kernels/cpu/products/gemm_nt.h"
#include "qkv/kernels/cpu/row-inl.h"
#include "qkv/tensor/half.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::kernels::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR

template <class W>
void float_part(const GemmTile& p) {
  const W* const w = static_cast<const W*>(p.w);
  for (int64_t row = 0; row < p.rows; ++row) {
    for (int64_t col = 0; col < p.cols; ++col) {
      float& y = p.y[row * p.y_stride + col];
      int64_t first = p.first;
      do {
        float chain[4] = {};
        for (int64_t i = first; i < std::min(first + kDepth, p.inner); ++i) {
          float& sum = chain[i % 4];
          sum = p.x[row * p.x_stride + i] * widened(w[col * p.w_stride + i]) + sum;
        }
        float sum = (chain[0] + chain[1]) + (chain[2] + chain[3]);
        if (first == 0 && p.bias != nullptr) sum += p.bias[col];
        y = first > 0 || p.accumulate ? y + sum : sum;
        first += kDepth;
      } while (first < p.first + p.depth);
    }
  }
}

#else

// Blocks of four lanes in a vector: each has one column's four chains.
inline constexpr int kBlocks = static_cast<int>(hn::MaxLanes(Floats()) / 4);

// Rows of a tile, and vectors of columns, whose chains stay in registers. Columns read in place may all map
// to one set of the L1 cache, which holds eight of them.
#if HWY_ARCH_X86 && HWY_TARGET > HWY_AVX3  // sixteen registers
inline constexpr int kTileRows = 6, kTileVectors = 2;
inline constexpr int kNarrowRows = 2, kNarrowVectors = 4;
inline constexpr int kCrowdedVectors = 4 / kBlocks == 2 ? 2 : 4;
#else
inline constexpr int kTileRows = 6, kTileVectors = 4;
inline constexpr int kNarrowRows = 6, kNarrowVectors = kBlocks == 4 ? 2 : 4;
inline constexpr int kCrowdedVectors = kNarrowVectors;
#endif
static_assert(kTileVectors * kBlocks <= kTileCols && kNarrowVectors * kBlocks <= kTileCols);

// With more rows than this, columns are packed side by side, in f32; the cost is shared by the rows.
inline constexpr int64_t kFewRows = 12;

// Four numbers of each of several columns, w[b] + i in block b; for a partial group, padded with zeros.
template <class D, class W, class P>
HWY_INLINE hn::Vec<D> blocks_of(D d, const W* const* w, int64_t i, P part) {
  if constexpr (hn::MaxLanes(D()) == 4) {
    return load(d, reinterpret_cast<const hn::TFromD<D>*>(w[0] + i), part);
  } else {
    const hn::Half<D> half;
    constexpr size_t kHalf = hn::MaxLanes(D()) / 8;
    return hn::Combine(d, blocks_of(half, w + kHalf, i, part), blocks_of(half, w, i, part));
  }
}

template <class P>
HWY_INLINE FloatVector columns_of(const float* const* w, int64_t i, P part) {
  return blocks_of(Floats(), w, i, part);
}

template <class Half, class P>
HWY_INLINE FloatVector columns_of(const Half* const* w, int64_t i, P part) {
  return widen(blocks_of(Halves(), w, i, part), Half());
}

// Columns of a tile.
struct ColumnRange {
  int64_t begin, end;
};

// A tile's columns in place. Block b of vector v is column b * V + v.
template <class W, int V>
struct InPlace {
  static constexpr int kVectors = V;
  const W* column[V * kBlocks];  // in the order of the blocks, vector by vector
  // Distance, in numbers, to the columns to prefetch.
  int64_t ahead = 0;
  int64_t rows = 1;  // of the product

  // The columns that a tile of R rows prefetches. Products of few rows are memory-bound: all their rows share
  // the prefetching, so that the memory is never idle.
  HWY_INLINE ColumnRange expected(int64_t row, int R) const {
    constexpr int64_t kColumns = V * kBlocks;
    return {kColumns * row / rows, kColumns * (row + R) / rows};
  }
  HWY_INLINE void prefetch(ColumnRange columns, int64_t i) const {
    for (int64_t c = columns.begin; c < columns.end; ++c) __builtin_prefetch(column[c] + i + ahead, 0, 2);
  }
  template <class P>
  HWY_INLINE FloatVector at(int v, int64_t i, P part) const {
    return columns_of(column + v * kBlocks, i, part);
  }
};

// A tile's columns packed side by side, all within the L1 cache: numbers i to i + 4 of one column after the
// other are at i * V * kBlocks, zero-padded to multiples of four.
template <class W, int V>
struct Panel {
  static constexpr int kVectors = V;
  const float* first = nullptr;
  InPlace<W, V> following;  // the tile to be packed next, prefetched during this one

  // Each tile of rows prefetches a few columns: too many outstanding prefetches stall.
  HWY_INLINE ColumnRange expected(int64_t row, int /*R*/) const {
    return {row / 3, std::min<int64_t>((row + kTileRows) / 3, V * kBlocks)};
  }
  HWY_INLINE void prefetch(ColumnRange columns, int64_t i) const { following.prefetch(columns, i); }
  template <class P>
  HWY_INLINE FloatVector at(int v, int64_t i, P) const {
    return hn::LoadU(Floats(), first + i * (V * kBlocks) + v * 4 * kBlocks);
  }
};

// Adds four numbers of each row and column, or a partial group, to the chains.
template <int R, class Columns, class P>
HWY_INLINE void take_in(const float* x, int64_t x_stride, const Columns& columns, int64_t i, P part,
                        FloatVector (&sum)[R][Columns::kVectors]) {
  const Floats d;
  constexpr int V = Columns::kVectors;
  FloatVector right[V];
#pragma GCC unroll 4
  for (int v = 0; v < V; ++v) right[v] = columns.at(v, i, part);
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
    // One row at a time: sixteen registers hold the sums, the columns and it.
    const auto left = hn::LoadDup128(d, x + r * x_stride);
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) sum[r][v] = hn::MulAdd(left, right[v], sum[r][v]);
  }
}

// The same with eight numbers, for two columns of 16 bits in a vector: half the loads, and those of a few
// rows.
template <int R, class Half, int V>
HWY_INLINE void take_in_eight(const float* x, int64_t x_stride, const InPlace<Half, V>& columns, int64_t i,
                              FloatVector (&sum)[R][V]) {
  const Floats d;
  FloatVector left[R][2];
#pragma GCC unroll 2
  for (int r = 0; r < R; ++r) {
    left[r][0] = hn::LoadDup128(d, x + r * x_stride);
    left[r][1] = hn::LoadDup128(d, x + r * x_stride + 4);
  }
#pragma GCC unroll 4
  for (int v = 0; v < V; ++v) {
    const auto first = load_halves(columns.column[2 * v] + i, Full{});
    const auto second = load_halves(columns.column[2 * v + 1] + i, Full{});
    const auto low = hn::ConcatLowerLower(d, second, first), high = hn::ConcatUpperUpper(d, second, first);
#pragma GCC unroll 2
    for (int r = 0; r < R; ++r)
      sum[r][v] = hn::MulAdd(left[r][1], high, hn::MulAdd(left[r][0], low, sum[r][v]));
  }
}

// Adds a line of the columns' numbers to the chains.
template <int R, class W, class Columns>
HWY_INLINE void take_in_line(const float* x, int64_t x_stride, const Columns& columns, int64_t i,
                             FloatVector (&sum)[R][Columns::kVectors]) {
  constexpr auto kLine = static_cast<int64_t>(64 / sizeof(W));
  if constexpr (kBlocks == 2 && sizeof(W) == 2 && R <= 2) {
    for (int64_t k = 0; k < kLine; k += 8) take_in_eight<R>(x + k, x_stride, columns, i + k, sum);
  } else {
    for (int64_t k = 0; k < kLine; k += 4) take_in<R>(x + k, x_stride, columns, i + k, Full{}, sum);
  }
}

// Horizontal sums of each block of four vectors: element 4 b + v of the result is the sum of block b of
// vector v.
HWY_INLINE FloatVector sums_of_blocks(FloatVector v0, FloatVector v1, FloatVector v2, FloatVector v3) {
  const Floats d;
  const hn::Repartition<double, Floats> pairs;
  // Transposes within each block, so that chains 0 to 3 of the four vectors are in one vector each.
  const auto low01 = hn::BitCast(pairs, hn::InterleaveLower(d, v0, v1));
  const auto low23 = hn::BitCast(pairs, hn::InterleaveLower(d, v2, v3));
  const auto high01 = hn::BitCast(pairs, hn::InterleaveUpper(d, v0, v1));
  const auto high23 = hn::BitCast(pairs, hn::InterleaveUpper(d, v2, v3));
  const auto c0 = hn::BitCast(d, hn::InterleaveLower(pairs, low01, low23));
  const auto c1 = hn::BitCast(d, hn::InterleaveUpper(pairs, low01, low23));
  const auto c2 = hn::BitCast(d, hn::InterleaveLower(pairs, high01, high23));
  const auto c3 = hn::BitCast(d, hn::InterleaveUpper(pairs, high01, high23));
  return hn::Add(hn::Add(c0, c1), hn::Add(c2, c3));
}

// The destination of a tile's sums: y (+)= sums + bias, in each row.
struct Target {
  float* y;
  int64_t stride;
  const float* bias;  // or null
  bool add;

  template <class D, class P>
  HWY_INLINE void put(D d, hn::Vec<D> sums, int64_t row, int64_t col, P part) const {
    float* const to = y + row * stride + col;
    if (bias != nullptr) sums = hn::Add(sums, load(d, bias + col, part));
    if (add) sums = hn::Add(load(d, to, part), sums);
    store(d, sums, to, part);
  }
};

// The sums of two rows' chains in two vectors each: half a vector per row, with its columns in order.
struct SumsOfTwo {
  hn::Vec<hn::Half<Floats> > first, second;
};

HWY_INLINE SumsOfTwo sums_of_two(const FloatVector (&first)[2], const FloatVector (&second)[2]) {
  const Floats d;
  const hn::Half<Floats> half;
  const hn::Repartition<double, Floats> pairs;
  // Each block has two columns of the first row, then the same of the second.
  const auto both = hn::BitCast(pairs, sums_of_blocks(first[0], first[1], second[0], second[1]));
  return {hn::LowerHalf(half, hn::BitCast(d, hn::ConcatEven(pairs, both, both))),
          hn::LowerHalf(half, hn::BitCast(d, hn::ConcatOdd(pairs, both, both)))};
}

// Adds the chains of R rows and stores the sums of the columns of `part`.
template <int R, class P>
HWY_INLINE void put_rows(const FloatVector (&sum)[R][4], const Target& target, P part) {
  const Floats d;
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
    target.put(d, sums_of_blocks(sum[r][0], sum[r][1], sum[r][2], sum[r][3]), r, 0, part);
}

template <int R, class P>
HWY_INLINE void put_rows(const FloatVector (&sum)[R][2], const Target& target, P part) {
  const hn::Half<Floats> half;
#pragma GCC unroll 4
  for (int r = 0; r + 1 < R; r += 2) {
    const SumsOfTwo sums = sums_of_two(sum[r], sum[r + 1]);
    target.put(half, sums.first, r, 0, part);
    target.put(half, sums.second, r + 1, 0, part);
  }
  if constexpr (R % 2 == 1) target.put(half, sums_of_two(sum[R - 1], sum[R - 1]).first, R - 1, 0, part);
}

// The sums never pass through memory: an index into an array of them would keep the chains of the whole
// product there, and reading what was just written in other pieces waits.
template <int R, int V>
HWY_INLINE void put_sums(const FloatVector (&sum)[R][V], const Target& target, int64_t cols) {
  if (cols == V * kBlocks) {
    put_rows(sum, target, Full{});
  } else {
    put_rows(sum, target, Part{static_cast<size_t>(cols)});
  }
}

// R rows by the columns of a tile, which begin at the part's first number: the numbers of one block of
// kDepth, from `begin` on. `col`: the first column.
template <int R, class W, class Columns>
HWY_INLINE void float_block(const GemmTile& p, const Columns& columns, int64_t row, int64_t col,
                            int64_t begin) {
  constexpr int V = Columns::kVectors;
  constexpr auto kLine = static_cast<int64_t>(64 / sizeof(W));
  const Floats d;
  const int64_t end = std::min(begin + kDepth, p.inner - p.first), full = end - (end - begin) % 4;
  const int64_t stride = p.x_stride;
  const float* const x = p.x + row * stride + p.first;
  FloatVector sum[R][V];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) sum[r][v] = hn::Zero(d);
  }
  int64_t i = begin;
  const ColumnRange expected = columns.expected(row, R);
  if (expected.begin < expected.end) {
    for (; i + kLine <= full; i += kLine) {
      columns.prefetch(expected, i);
      take_in_line<R, W>(x + i, stride, columns, i, sum);
    }
  }
  for (; i < full; i += 4) take_in<R>(x + i, stride, columns, i, Full{}, sum);
  if (full < end) {
    const Part part{static_cast<size_t>(end - full)};
    const hn::FixedTag<float, 4> four;
    HWY_ALIGN float rest[R * 4];
    for (int r = 0; r < R; ++r) hn::Store(load(four, x + r * stride + full, part), four, rest + r * 4);
    take_in<R>(rest, 4, columns, full, part, sum);
  }
  const bool begins = p.first + begin == 0;
  put_sums<R, V>(sum,
                 {.y = p.y + row * p.y_stride + col,
                  .stride = p.y_stride,
                  .bias = begins && p.bias != nullptr ? p.bias + col : nullptr,
                  .add = p.accumulate || !begins},
                 std::min<int64_t>(V * kBlocks, p.cols - col));
}

template <int R, class W, class Columns>
HWY_NOINLINE void float_tile(const GemmTile& p, const Columns& columns, int64_t row, int64_t col) {
  int64_t begin = 0;
  do {
    float_block<R, W>(p, columns, row, col, begin);
    begin += kDepth;
  } while (begin < p.depth);
}

template <int R, class W, class Columns>
HWY_INLINE void float_tile_of(int64_t rows, const GemmTile& p, const Columns& columns, int64_t row,
                              int64_t col) {
  if constexpr (R > 1) {
    if (rows < R) return float_tile_of<R - 1, W>(rows, p, columns, row, col);
  }
  float_tile<R, W>(p, columns, row, col);
}

// All rows by a tile's columns, in nearly equal parts of at most R rows.
template <int R, class W, class Columns>
HWY_INLINE void all_rows(const GemmTile& p, const Columns& columns, int64_t col) {
  const int64_t parts = (p.rows + R - 1) / R;
  for (int64_t part = 0; part < parts; ++part) {
    const int64_t row = p.rows * part / parts, end = p.rows * (part + 1) / parts;
    float_tile_of<R, W>(end - row, p, columns, row, col);
  }
}

template <class W>
HWY_INLINE const W* column_of(const GemmTile& p, int64_t col) {
  // Past the last column, the last one is computed again.
  return static_cast<const W*>(p.w) + std::min(col, p.cols - 1) * p.w_stride + p.first;
}

// The columns of the tile from `col`. `ahead`: distance to the weights to prefetch.
template <class W, int V>
HWY_INLINE InPlace<W, V> in_place(const GemmTile& p, int64_t col, int64_t ahead) {
  InPlace<W, V> columns;
  for (int v = 0; v < V; ++v) {
    for (int b = 0; b < kBlocks; ++b) columns.column[v * kBlocks + b] = column_of<W>(p, col + b * V + v);
  }
  columns.ahead = ahead;
  columns.rows = p.rows;
  return columns;
}

// Packs `count` numbers of a tile's columns side by side, in the layout of Panel.
template <class W, int V>
HWY_INLINE void lay_columns(const InPlace<W, V>& columns, int64_t count, float* panel) {
  const Floats d;
  const int64_t full = count / 4 * 4;
  for (int v = 0; v < V; ++v) {
    float* const to = panel + v * 4 * kBlocks;
    for (int64_t i = 0; i < full; i += 4) hn::StoreU(columns.at(v, i, Full{}), d, to + i * (V * kBlocks));
    if (full < count) {
      const Part rest{static_cast<size_t>(count - full)};
      hn::StoreU(columns.at(v, full, rest), d, to + full * (V * kBlocks));
    }
  }
}

template <int R, int V, class W>
HWY_INLINE void part_in_place(const GemmTile& p) {
  for (int64_t col = 0; col < p.cols; col += V * kBlocks)
    all_rows<R, W>(p, in_place<W, V>(p, col, V * kBlocks * p.w_stride), col);
}

template <class W>
HWY_INLINE void part_in_panels(const GemmTile& p) {
  constexpr int V = kTileVectors, kCols = V * kBlocks;
  const int64_t count = std::min(kDepth, p.inner - p.first);
  for (int64_t col = 0; col < p.cols; col += kCols) {
    lay_columns(in_place<W, V>(p, col, 0), count, p.scratch);
    // The next part begins with the columns after these.
    all_rows<kTileRows, float>(p, Panel<W, V>{p.scratch, in_place<W, V>(p, col, kPartCols * p.w_stride)},
                               col);
  }
}

template <class W>
void float_part(const GemmTile& p) {
  const bool crowded = p.w_stride * static_cast<int64_t>(sizeof(W)) % 4096 == 0;
  if (p.rows <= kReadWhole && crowded) {
    part_in_place<kNarrowRows, kCrowdedVectors, W>(p);
  } else if (p.rows <= kReadWhole || (crowded && p.rows <= kFewRows)) {
    part_in_place<kNarrowRows, kNarrowVectors, W>(p);
  } else if (p.rows <= kFewRows) {
    part_in_place<kTileRows, kTileVectors, W>(p);
  } else {
    part_in_panels<W>(p);
  }
}

#endif  // HWY_SCALAR

}  // namespace qkv::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
