// The matrix products and transposes of attention's tiles. Included once for every target of Highway.

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

// What a product does with what stands in C: forgets it, adds to it, or multiplies column j by factor[j] and
// adds to that.
enum class Start { zero, add, rescale };

// The left-hand side of a product, whose elements are broadcast: (m, k) lies at data[m * row + k * step].
struct Left {
  const float* data;
  int64_t row, step;
};

// Rows of C that are computed at a time in N vectors of columns: as many as the registers hold.
template <int N>
constexpr int block_rows() {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_SSE2 || HWY_TARGET == HWY_SCALAR
  return N == 3 ? 4 : N == 2 ? 6 : 8;
#else
  return 8;
#endif
}

// C[m, j] = start + sum_k A[m, k] B[k, j] for N vectors of columns j. Every element is one chain of
// multiply-adds in the order of k, so its bits depend on nothing beside it. In the last block the last row
// stands in for the rows that are missing: it is computed, and written, more than once.
template <int N, Start kStart>
HWY_NOINLINE void multiply_columns(const Left& a, int64_t rows, int64_t depth, const float* HWY_RESTRICT b,
                                   int64_t b_stride, float* HWY_RESTRICT c, int64_t c_stride,
                                   const float* HWY_RESTRICT factor) {
  const Floats d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  constexpr int kRows = block_rows<N>();
  for (int64_t first = 0; first < rows; first += kRows) {
    const float* row[kRows];
    float* to[kRows];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      row[r] = a.data + std::min(first + r, rows - 1) * a.row;
      to[r] = c + std::min(first + r, rows - 1) * c_stride;
    }
    FloatVector sum[kRows][N];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 3
      for (int n = 0; n < N; ++n) {
        if constexpr (kStart == Start::zero) {
          sum[r][n] = hn::Zero(d);
        } else {
          sum[r][n] = hn::LoadU(d, to[r] + n * lanes);
          if constexpr (kStart == Start::rescale) {
            sum[r][n] = hn::Mul(sum[r][n], hn::LoadU(d, factor + n * lanes));
          }
        }
      }
    }
    const float* HWY_RESTRICT b_row = b;
    const int64_t end = depth * a.step;
    for (int64_t k = 0; k < end; k += a.step, b_row += b_stride) {
      FloatVector right[N];
#pragma GCC unroll 3
      for (int n = 0; n < N; ++n) right[n] = hn::LoadU(d, b_row + n * lanes);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const auto left = hn::Set(d, row[r][k]);
#pragma GCC unroll 3
        for (int n = 0; n < N; ++n) sum[r][n] = hn::MulAdd(left, right[n], sum[r][n]);
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 3
      for (int n = 0; n < N; ++n) hn::StoreU(sum[r][n], d, to[r] + n * lanes);
    }
  }
}

// The same for any number of vectors of columns.
template <Start kStart>
HWY_INLINE void multiply(const Left& a, int64_t rows, int64_t depth, const float* b, int64_t b_stride,
                         float* c, int64_t c_stride, int64_t vectors, const float* factor = nullptr) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(Floats()));
  while (vectors > 0) {
    const int64_t n = vectors == 4 ? 2 : std::min<int64_t>(vectors, 3);
    const auto call = n == 3   ? &multiply_columns<3, kStart>
                      : n == 2 ? &multiply_columns<2, kStart>
                               : &multiply_columns<1, kStart>;
    call(a, rows, depth, b, b_stride, c, c_stride, factor);
    vectors -= n;
    b += n * lanes;
    c += n * lanes;
    if constexpr (kStart == Start::rescale) factor += n * lanes;
  }
}

// to[j, i] (+)= factor * from[i, j] for i < rows and j < cols.
template <bool kAdd>
HWY_INLINE void transpose(const float* HWY_RESTRICT from, int64_t from_stride, int64_t rows, int64_t cols,
                          float factor, float* HWY_RESTRICT to, int64_t to_stride) {
  int64_t full_rows = 0, full_cols = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::FixedTag<float, 4> d;
  const hn::Repartition<double, decltype(d)> d64;
  const auto factors = hn::Set(d, factor);
  full_rows = rows & ~int64_t{3};
  full_cols = cols & ~int64_t{3};
  for (int64_t i = 0; i < full_rows; i += 4) {
    for (int64_t j = 0; j < full_cols; j += 4) {
      const float* corner = from + i * from_stride + j;
      const auto r0 = hn::LoadU(d, corner), r1 = hn::LoadU(d, corner + from_stride);
      const auto r2 = hn::LoadU(d, corner + 2 * from_stride), r3 = hn::LoadU(d, corner + 3 * from_stride);
      const auto low01 = hn::BitCast(d64, hn::InterleaveLower(d, r0, r1));
      const auto low23 = hn::BitCast(d64, hn::InterleaveLower(d, r2, r3));
      const auto high01 = hn::BitCast(d64, hn::InterleaveUpper(d, r0, r1));
      const auto high23 = hn::BitCast(d64, hn::InterleaveUpper(d, r2, r3));
      const auto put = [&](auto column, int64_t offset) HWY_ATTR {
        float* place = to + (j + offset) * to_stride + i;
        auto v = hn::Mul(hn::BitCast(d, column), factors);
        if constexpr (kAdd) v = hn::Add(hn::LoadU(d, place), v);
        hn::StoreU(v, d, place);
      };
      put(hn::InterleaveLower(d64, low01, low23), 0);
      put(hn::InterleaveUpper(d64, low01, low23), 1);
      put(hn::InterleaveLower(d64, high01, high23), 2);
      put(hn::InterleaveUpper(d64, high01, high23), 3);
    }
  }
#endif
  const auto one = [&](int64_t i, int64_t j) {
    const float v = from[i * from_stride + j] * factor;
    float& place = to[j * to_stride + i];
    place = kAdd ? place + v : v;
  };
  for (int64_t i = 0; i < full_rows; ++i) {
    for (int64_t j = full_cols; j < cols; ++j) one(i, j);
  }
  for (int64_t i = full_rows; i < rows; ++i) {
    for (int64_t j = 0; j < cols; ++j) one(i, j);
  }
}

// Rows into lanes: to[j, i] = factor * from[i, j], with the lanes past the last row up to a whole vector set
// to zero.
HWY_INLINE void lay_in_lanes(Floats d, const float* from, int64_t from_stride, int64_t rows, int64_t cols,
                             float factor, float* to, int64_t to_stride) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), last = rows / lanes * lanes;
  if (last < rows) {
    for (int64_t j = 0; j < cols; ++j) hn::StoreU(hn::Zero(d), d, to + j * to_stride + last);
  }
  transpose<false>(from, from_stride, rows, cols, factor, to, to_stride);
}

// to[i, j] = from[i, j].
HWY_INLINE void copy_rows(const float* HWY_RESTRICT from, int64_t from_stride, int64_t rows, int64_t cols,
                          float* HWY_RESTRICT to, int64_t to_stride) {
  const Floats d;
  for (int64_t i = 0; i < rows; ++i) {
    for_vectors(d, cols, [&](auto part, int64_t j) HWY_ATTR {
      store(d, load(d, from + i * from_stride + j, part), to + i * to_stride + j, part);
    });
  }
}

// to[i, j] = factor * from[i, j], with the columns past the last up to a whole vector set to zero.
HWY_INLINE void copy_padded(Floats d, const float* HWY_RESTRICT from, int64_t from_stride, int64_t rows,
                            int64_t cols, float factor, float* HWY_RESTRICT to, int64_t to_stride) {
  const auto factors = hn::Set(d, factor);
  for (int64_t i = 0; i < rows; ++i) {
    for_vectors(d, cols, [&](auto part, int64_t j) HWY_ATTR {
      hn::StoreU(hn::Mul(load(d, from + i * from_stride + j, part), factors), d, to + i * to_stride + j);
    });
  }
}

}  // namespace qkv::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
