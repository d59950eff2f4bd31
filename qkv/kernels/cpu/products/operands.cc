#include "qkv/kernels/cpu/products/operands.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "qkv/kernels/cpu/products/operands.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "qkv/kernels/cpu/row-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::kernels::HWY_NAMESPACE {
namespace {

// to[(row - first) * stride + col] = from[col][row] for the rows [first, end).
void transpose_part(const float* const* from, int64_t cols, int64_t first, int64_t end, float* to,
                    int64_t stride) {
  for (int64_t row = first; row < end; ++row) {
    for (int64_t col = 0; col < cols; ++col) to[(row - first) * stride + col] = from[col][row];
  }
}

// Four rows at a time. Sources are often powers of two apart and map to the same cache sets, so a whole cache
// line is used before the next column.
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

void round_all(const float* const* from, int64_t rows, int64_t cols, BFloat16* to, int64_t stride) {
  const Floats d;
  for (int64_t row = 0; row < rows; ++row, to += stride) {
    for_vectors(d, cols, [&](auto part, int64_t i) HWY_ATTR {
      store_rounded(load(d, from[row] + i, part), to + i, part);
    });
    std::fill(to + cols, to + stride, BFloat16{});
  }
}

void round_all_pairs(const float* const* from, int64_t rows, int64_t first, int64_t cols, uint32_t* to,
                     int64_t stride) {
  const Floats d;
  const FloatBits bits;
  for (int64_t row = 0; row < rows; row += 2, to += stride) {
    const float* const even = from[row] + first;
    const float* const odd = row + 1 < rows ? from[row + 1] + first : nullptr;
    for_vectors(d, cols, [&](auto part, int64_t i) HWY_ATTR {
      const auto high = odd ? rounded(load(d, odd + i, part)) : hn::Zero(bits);
      const auto low = hn::ShiftRight<16>(rounded(load(d, even + i, part)));
      store(bits, hn::Or(high, low), to + i, part);
    });
  }
}

void round_all_values(const float* from, int64_t count, float* to) {
  const Floats d;
  for_vectors(d, count, [&](auto part, int64_t i) HWY_ATTR {
    store(d, hn::BitCast(d, rounded(load(d, from + i, part))), to + i, part);
  });
}

}  // namespace
}  // namespace qkv::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qkv::kernels {
namespace {

HWY_EXPORT(transpose);
HWY_EXPORT(round_all);
HWY_EXPORT(round_all_pairs);
HWY_EXPORT(round_all_values);

}  // namespace

void transpose_rows(const float* const* from, int64_t cols, int64_t rows, float* to, int64_t stride) {
  HWY_DYNAMIC_DISPATCH(transpose)(from, cols, rows, to, stride);
}

void round_rows(const float* const* from, int64_t rows, int64_t cols, BFloat16* to, int64_t stride) {
  HWY_DYNAMIC_DISPATCH(round_all)(from, rows, cols, to, stride);
}

void round_pairs(const float* const* from, int64_t rows, int64_t first, int64_t cols, BFloat16* to,
                 int64_t stride) {
  HWY_DYNAMIC_DISPATCH(round_all_pairs)(from, rows, first, cols, reinterpret_cast<uint32_t*>(to), stride);
}

void round_values(const float* from, int64_t count, float* to) {
  HWY_DYNAMIC_DISPATCH(round_all_values)(from, count, to);
}

}  // namespace qkv::kernels
#endif
