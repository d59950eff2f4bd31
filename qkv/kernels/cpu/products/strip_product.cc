#include "qkv/kernels/cpu/products/strip_product.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "qkv/kernels/cpu/products/strip_product.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "qkv/kernels/cpu/row-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::kernels::HWY_NAMESPACE {
namespace {

// Of the columns that are computed side by side: their sums, a row of b and one number of a stay in
// registers.
using Lanes = hn::CappedTag<float, kStripCols / 2>;
inline constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(Lanes()));
#if HWY_TARGET == HWY_SCALAR
inline constexpr int kVectors = 1;
#elif HWY_ARCH_X86  // sixteen registers
inline constexpr int kVectors = 2;
#else
inline constexpr int kVectors = 4;
#endif
static_assert(kStripCols % (kVectors * kLanes) == 0);

// R rows by kVectors vectors of columns, from `row` and `col`.
template <int R, bool kGrouped>
HWY_NOINLINE void tile(const StripProduct& p, int64_t row, int64_t col) {
  const Lanes d;
  using Vector = hn::Vec<Lanes>;
  float* const c = p.c + row * p.c_stride + col;
  for (int r = 0; r < R; ++r) __builtin_prefetch(c + r * p.c_stride, 1);
  Vector sum[R][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::Zero(d);
  }
  const float* a = p.a + (kGrouped ? row / kStripRows : row) * p.a_stride;
  const float* b = p.b + col;
  const int64_t stride = kGrouped ? 1 : p.a_stride;
#pragma GCC unroll 4
  for (int64_t i = 0; i < p.depth; ++i, a += kGrouped ? kStripRows : 1, b += kStripCols) {
    Vector right[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) right[v] = hn::LoadU(d, b + v * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const auto left = hn::Set(d, a[r * stride]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::MulAdd(left, right[v], sum[r][v]);
    }
  }
  const auto put = [&](Vector numbers, float* to, int64_t at, auto part) HWY_ATTR {
    if (p.bias != nullptr) numbers = hn::Add(numbers, load(d, p.bias + at, part));
    if (p.add) numbers = hn::Add(load(d, to, part), numbers);
    store(d, numbers, to, part);
  };
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const int64_t at = col + v * kLanes, rest = p.cols - at;
      float* const to = c + r * p.c_stride + v * kLanes;
      if (rest >= kLanes) {
        put(sum[r][v], to, at, Full{});
      } else if (rest > 0) {
        put(sum[r][v], to, at, Part{static_cast<size_t>(rest)});
      }
    }
  }
}

template <int R, bool kGrouped>
HWY_INLINE void tile_of(int64_t rows, const StripProduct& p, int64_t row, int64_t col) {
  if constexpr (R > 1) {
    if (rows < R) return tile_of<R - 1, kGrouped>(rows, p, row, col);
  }
  tile<R, kGrouped>(p, row, col);
}

// A share of the next strip, a line per row of it, with each group of rows: it comes from the L3 cache or
// memory.
HWY_INLINE void prefetch(const StripProduct& p, int64_t row) {
  const int64_t end = std::min(row + kStripRows, p.rows) * p.depth / p.rows;
  for (int64_t i = row * p.depth / p.rows; i < end; ++i) __builtin_prefetch(p.next + i * kStripCols, 0, 2);
}

template <bool kGrouped>
void all_tiles(const StripProduct& p) {
  for (int64_t col = 0; col < p.cols; col += kVectors * kLanes) {
    for (int64_t row = 0; row < p.rows; row += kStripRows) {
      if (col == 0 && p.next != nullptr) prefetch(p, row);
      tile_of<static_cast<int>(kStripRows), kGrouped>(p.rows - row, p, row, col);
    }
  }
}

void strip_product(const StripProduct& p) { p.grouped ? all_tiles<true>(p) : all_tiles<false>(p); }

}  // namespace
}  // namespace qkv::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qkv::kernels {
namespace {

HWY_EXPORT(strip_product);

}  // namespace

void multiply_strip(const StripProduct& product) { HWY_DYNAMIC_DISPATCH(strip_product)(product); }

}  // namespace qkv::kernels
#endif
