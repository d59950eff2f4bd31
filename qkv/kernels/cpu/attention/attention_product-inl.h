// The matrix products and transposes of attention's tiles. Included once per Highway target.

#if defined(QKV_KERNELS_CPU_ATTENTION_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_KERNELS_CPU_ATTENTION_PRODUCT_INL_H_
#undef QKV_KERNELS_CPU_ATTENTION_PRODUCT_INL_H_
#else
#define QKV_KERNELS_CPU_ATTENTION_PRODUCT_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

#include "qkv/kernels/cpu/row-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::kernels::HWY_NAMESPACE {

// Treatment of the previous contents of C: overwrite, add, or multiply row m by factor[m] and add.
enum class Start { zero, add, rescale };

// The left-hand side of a product, whose elements are broadcast: (m, k) is data[m * row + k * step].
struct Left {
  const float* data;
  int64_t row, step;
};

// C[m, j] = start + sum_k A[m, k] B[k, j] for `vectors` vectors of columns j.
struct Product {
  Left a;
  int64_t rows;
  const float* b;
  int64_t b_stride;
  float* c;
  int64_t c_stride;
  int64_t vectors;
  Start start = Start::zero;
  const float* factor = nullptr;
};

// The range of k of a product.
struct Depth {
  int64_t begin, end;
};

// A block of C is kept in registers: at most kMaxVectors vectors of columns, and max_rows(vectors) rows.
#if HWY_ARCH_X86 && HWY_TARGET > HWY_AVX3  // sixteen registers
inline constexpr int kMaxVectors = 2;
constexpr int max_rows(int vectors) { return vectors == 2 ? 6 : 8; }
#else
inline constexpr int kMaxVectors = 4;
constexpr int max_rows(int vectors) { return vectors == 4 ? 6 : 8; }
#endif
inline constexpr int kMaxRows = 8;

// Splits [0, count) into the fewest parts of at most `most`, of nearly equal sizes, and calls body(first,
// size).
template <class Body>
HWY_INLINE void for_even_parts(int64_t count, int64_t most, const Body& body) {
  if (count <= most) {
    if (count > 0) body(0, count);
    return;
  }
  const int64_t parts = (count + most - 1) / most, size = count / parts, larger = count % parts;
  int64_t first = 0;
  for (int64_t part = 0; part < parts; ++part) {
    const int64_t own = size + (part < larger ? 1 : 0);
    body(first, own);
    first += own;
  }
}

// R rows of C from `first`, and N vectors of columns from column `col`. Each element is a single chain of
// multiply-adds in the order of k, so its bits depend on no other element.
template <int N, int R>
HWY_NOINLINE void multiply_block(const Product& x, int64_t first, int64_t col, Depth depth) {
  const Floats d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  float* const HWY_RESTRICT c = x.c + first * x.c_stride + col;
  FloatVector sum[R][N];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) sum[r][n] = hn::Zero(d);
  }
  if (x.start == Start::add) {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int n = 0; n < N; ++n) sum[r][n] = hn::LoadU(d, c + r * x.c_stride + n * lanes);
    }
  } else if (x.start == Start::rescale) {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const auto factor = hn::Set(d, x.factor[first + r]);
#pragma GCC unroll 4
      for (int n = 0; n < N; ++n) sum[r][n] = hn::Mul(hn::LoadU(d, c + r * x.c_stride + n * lanes), factor);
    }
  }
  const float* row[R];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) row[r] = x.a.data + (first + r) * x.a.row;
  const float* HWY_RESTRICT b = x.b + depth.begin * x.b_stride + col;
  const int64_t step = x.a.step, b_stride = x.b_stride, end = depth.end * step;
  for (int64_t k = depth.begin * step; k < end; k += step, b += b_stride) {
    FloatVector right[N];
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) right[n] = hn::LoadU(d, b + n * lanes);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const auto left = hn::Set(d, row[r][k]);
#pragma GCC unroll 4
      for (int n = 0; n < N; ++n) sum[r][n] = hn::MulAdd(left, right[n], sum[r][n]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) hn::StoreU(sum[r][n], d, c + r * x.c_stride + n * lanes);
  }
}

template <int N>
HWY_INLINE void multiply_rows(const Product& x, int64_t first, int64_t count, int64_t col, Depth depth) {
  switch (count) {
    case 1:
      return multiply_block<N, 1>(x, first, col, depth);
    case 2:
      return multiply_block<N, 2>(x, first, col, depth);
    case 3:
      return multiply_block<N, 3>(x, first, col, depth);
    case 4:
      return multiply_block<N, 4>(x, first, col, depth);
    case 5:
      return multiply_block<N, 5>(x, first, col, depth);
    case 6:
      return multiply_block<N, 6>(x, first, col, depth);
    default:
      if constexpr (max_rows(N) > 6) {
        if (count == 7) return multiply_block<N, 7>(x, first, col, depth);
        return multiply_block<N, 8>(x, first, col, depth);
      }
  }
}

// depth_of(first, count) is the summation range of rows [first, first + count) of C: it excludes columns of A
// that causality makes zero for all these rows.
template <class DepthOf>
HWY_INLINE void multiply(const Product& x, const DepthOf& depth_of) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(Floats()));
  for_even_parts(x.vectors, kMaxVectors, [&](int64_t vector, int64_t vectors) HWY_ATTR {
    const int64_t col = vector * lanes;
    for_even_parts(x.rows, max_rows(static_cast<int>(vectors)), [&](int64_t first, int64_t count) HWY_ATTR {
      const Depth depth = depth_of(first, count);
      if (vectors == 1) return multiply_rows<1>(x, first, count, col, depth);
      if (vectors == 2) return multiply_rows<2>(x, first, count, col, depth);
      if constexpr (kMaxVectors == 4) {
        if (vectors == 3) return multiply_rows<3>(x, first, count, col, depth);
        multiply_rows<4>(x, first, count, col, depth);
      }
    });
  });
}

#if HWY_TARGET != HWY_SCALAR
// The sums of four vectors, in this order.
template <class D>
HWY_INLINE hn::Vec<hn::FixedTag<float, 4>> sum_blocks(D /*d*/, hn::Vec<D> v) {
  if constexpr (hn::MaxLanes(D()) == 4) {
    return v;
  } else {
    const hn::Half<D> half;
    return sum_blocks(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  }
}

HWY_INLINE hn::Vec<hn::FixedTag<float, 4>> four_sums(Floats d, FloatVector v0, FloatVector v1, FloatVector v2,
                                                     FloatVector v3) {
  const hn::Repartition<double, Floats> d64;
  const auto sum01 =
      hn::BitCast(d64, hn::Add(hn::InterleaveLower(d, v0, v1), hn::InterleaveUpper(d, v0, v1)));
  const auto sum23 =
      hn::BitCast(d64, hn::Add(hn::InterleaveLower(d, v2, v3), hn::InterleaveUpper(d, v2, v3)));
  return sum_blocks(d, hn::Add(hn::BitCast(d, hn::InterleaveLower(d64, sum01, sum23)),
                               hn::BitCast(d, hn::InterleaveUpper(d64, sum01, sum23))));
}
#endif

// to[j] = factor * sum_k x[k] row_at(j)[k] for j < count, and arbitrary values for up to three more: one row
// times many, whose elements are read once. The order of summation depends on `cols` alone.
template <class RowAt>
HWY_INLINE void dot_products([[maybe_unused]] Floats d, const float* HWY_RESTRICT x, int64_t cols,
                             const RowAt& row_at, int64_t count, float factor, float* HWY_RESTRICT to) {
#if HWY_TARGET == HWY_SCALAR
  for (int64_t j = 0; j < count; ++j) {
    float sum = 0;
    for (int64_t k = 0; k < cols; ++k) sum = x[k] * row_at(j)[k] + sum;
    to[j] = sum * factor;
  }
#else
  const hn::FixedTag<float, 4> d4;
  for (int64_t j = 0; j < count; j += 4) {
    const float* row[4];
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) row[r] = row_at(std::min(j + r, count - 1));
    auto sum0 = hn::Zero(d), sum1 = sum0, sum2 = sum0, sum3 = sum0;
    for_vectors(d, cols, [&](auto part, int64_t k) HWY_ATTR {
      const auto left = load(d, x + k, part);
      sum0 = hn::MulAdd(left, load(d, row[0] + k, part), sum0);
      sum1 = hn::MulAdd(left, load(d, row[1] + k, part), sum1);
      sum2 = hn::MulAdd(left, load(d, row[2] + k, part), sum2);
      sum3 = hn::MulAdd(left, load(d, row[3] + k, part), sum3);
    });
    hn::StoreU(hn::Mul(four_sums(d, sum0, sum1, sum2, sum3), hn::Set(d4, factor)), d4, to + j);
  }
#endif
}

// to[j, i] = factor * from[i, j] for i < rows and j < cols. Lanes past the last row, up to a multiple of 8,
// repeat the last row.
HWY_INLINE void transpose(const float* HWY_RESTRICT from, int64_t from_stride, int64_t rows, int64_t cols,
                          float factor, float* HWY_RESTRICT to, int64_t to_stride) {
  int64_t full_cols = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::FixedTag<float, 4> d4;
#if HWY_MAX_BYTES >= 32
  const hn::FixedTag<float, 8> d;
#else
  const hn::FixedTag<float, 4> d;
#endif
  constexpr int64_t kRows = HWY_MAX_BYTES >= 32 ? 8 : 4;
  const hn::Repartition<double, decltype(d)> d64;
  const auto factors = hn::Set(d, factor);
  full_cols = cols & ~int64_t{3};
  for (int64_t i = 0; i < rows; i += kRows) {
    const float* row[kRows];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) row[r] = from + std::min(i + r, rows - 1) * from_stride;
    for (int64_t j = 0; j < full_cols; j += 4) {
      // Rows r and r + 4, four columns of each, in the two blocks of a vector.
      const auto two = [&](int r) HWY_ATTR {
#if HWY_MAX_BYTES >= 32
        return hn::Combine(d, hn::LoadU(d4, row[r + 4] + j), hn::LoadU(d4, row[r] + j));
#else
        return hn::LoadU(d4, row[r] + j);
#endif
      };
      const auto r0 = two(0), r1 = two(1), r2 = two(2), r3 = two(3);
      const auto low01 = hn::BitCast(d64, hn::InterleaveLower(d, r0, r1));
      const auto low23 = hn::BitCast(d64, hn::InterleaveLower(d, r2, r3));
      const auto high01 = hn::BitCast(d64, hn::InterleaveUpper(d, r0, r1));
      const auto high23 = hn::BitCast(d64, hn::InterleaveUpper(d, r2, r3));
      float* const place = to + j * to_stride + i;
      const auto put = [&](auto column, int64_t offset) HWY_ATTR {
        hn::StoreU(hn::Mul(hn::BitCast(d, column), factors), d, place + offset * to_stride);
      };
      put(hn::InterleaveLower(d64, low01, low23), 0);
      put(hn::InterleaveUpper(d64, low01, low23), 1);
      put(hn::InterleaveLower(d64, high01, high23), 2);
      put(hn::InterleaveUpper(d64, high01, high23), 3);
    }
  }
#endif
  for (int64_t j = full_cols; j < cols; ++j) {
    for (int64_t i = 0; i < (rows + 7) / 8 * 8; ++i) {
      to[j * to_stride + i] = from[std::min(i, rows - 1) * from_stride + j] * factor;
    }
  }
}

// Rows to lanes: to[j, i] = factor * from[i, j]; lanes past the last row, up to `width`, get unused finite
// values from other rows.
HWY_INLINE void pack_transposed(const float* from, int64_t from_stride, int64_t rows, int64_t cols,
                                float factor, float* to, int64_t width) {
  const int64_t written = (rows + 7) / 8 * 8;
  transpose(from, from_stride, rows, cols, factor, to, width);
  if (written >= width) return;
  for (int64_t j = 0; j < cols; ++j) std::copy_n(to + j * width, width - written, to + j * width + written);
}

// to[i, j] = factor * from[i, j], with zero padding to a whole vector of columns.
HWY_INLINE void copy_padded(Floats d, const float* HWY_RESTRICT from, int64_t from_stride, int64_t rows,
                            int64_t cols, float factor, float* HWY_RESTRICT to, int64_t to_stride) {
  const auto factors = hn::Set(d, factor);
  for (int64_t i = 0; i < rows; ++i) {
    for_vectors(d, cols, [&](auto part, int64_t j) HWY_ATTR {
      hn::StoreU(hn::Mul(load(d, from + i * from_stride + j, part), factors), d, to + i * to_stride + j);
    });
  }
}

// to[i, j] (+)= factor * from[i, j]; may read up to a whole vector past the columns, but not write.
template <bool kAdd>
HWY_INLINE void put_row(Floats d, const float* HWY_RESTRICT from, int64_t cols, FloatVector factor,
                        float* HWY_RESTRICT to) {
  for_vectors(d, cols, [&](auto part, int64_t j) HWY_ATTR {
    auto v = hn::Mul(hn::LoadU(d, from + j), factor);
    if constexpr (kAdd) v = hn::Add(load(d, to + j, part), v);
    store(d, v, to + j, part);
  });
}

}  // namespace qkv::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
