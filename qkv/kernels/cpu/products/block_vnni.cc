// Products with weights in blocks with AVX-512 VNNI: one instruction adds four products to the sums of 16
// columns.

#include "qkv/kernels/cpu/products/block_panel.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(HWY_COMPILE_ONLY_SCALAR)

#include <immintrin.h>

#include <algorithm>
#include <cstring>

// GCC 12 warns about unused operands within its own intrinsics; with sanitizers under the second name.
#pragma GCC diagnostic ignored "-Wuninitialized"
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#define QKV_VNNI __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni,fma")))

namespace qkv::kernels {
namespace {

QKV_VNNI inline __m512i broadcast_four(const int8_t* from) {
  int32_t four;
  std::memcpy(&four, from, sizeof four);
  return _mm512_set1_epi32(four);
}

template <int R, int kWidth, bool kOffsets>
QKV_VNNI void multiply(const BlockPanel& panel, const PanelRows& rows) {
  const auto* weights = static_cast<const uint8_t*>(panel.numbers);
  const auto* x = static_cast<const int8_t*>(rows.numbers);
  __m512 y[R];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) y[r] = _mm512_loadu_ps(rows.y + r * rows.y_stride);
  for (int64_t g = 0; g < panel.groups; ++g) {
    const int64_t wide = kWidth == 32 ? g : g / 2;  // the inputs' group
    __m512i sum[R];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const int32_t* const own = rows.sums + r * 2 * rows.group_stride;
      const int32_t inputs = kWidth == 32 ? own[2 * g] + own[2 * g + 1] : own[g];
      sum[r] = _mm512_set1_epi32(-panel.zero * inputs);
    }
#pragma GCC unroll 8
    for (int k = 0; k < kWidth; k += 4, weights += 4 * kVnniCols, x += 4) {
      const __m512i w = _mm512_loadu_si512(weights);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r)
        sum[r] = _mm512_dpbusd_epi32(sum[r], w, broadcast_four(x + r * rows.stride));
    }
    const __m512 scales = _mm512_loadu_ps(panel.scales + g * kVnniCols);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const __m512 own = _mm512_set1_ps(rows.scales[r * rows.group_stride + wide]);
      y[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[r]), _mm512_mul_ps(scales, own), y[r]);
    }
    if constexpr (kOffsets) {
      const __m512 offsets = _mm512_loadu_ps(panel.offsets + g * kVnniCols);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r)
        y[r] = _mm512_fmadd_ps(offsets, _mm512_set1_ps(rows.shifts[r * rows.group_stride + g]), y[r]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) _mm512_storeu_ps(rows.y + r * rows.y_stride, y[r]);
}

template <int R>
void multiply_rows(const BlockPanel& panel, const PanelRows& rows) {
  if (panel.width == 16) return multiply<R, 16, false>(panel, rows);
  panel.offsets != nullptr ? multiply<R, 32, true>(panel, rows) : multiply<R, 32, false>(panel, rows);
}

}  // namespace

void multiply_panel_vnni(const BlockPanel& panel, const PanelRows& rows) {
  constexpr int64_t kRows = 8;
  PanelRows some = rows;
  while (some.count > 0) {
    // Eight at a time; of the rest four, two and one.
    const int64_t now = some.count >= kRows ? kRows : some.count >= 4 ? 4 : some.count >= 2 ? 2 : 1;
    now == 8   ? multiply_rows<8>(panel, some)
    : now == 4 ? multiply_rows<4>(panel, some)
    : now == 2 ? multiply_rows<2>(panel, some)
               : multiply_rows<1>(panel, some);
    some.count -= now;
    some.numbers = static_cast<const int8_t*>(some.numbers) + now * some.stride;
    some.scales += now * some.group_stride;
    some.shifts += now * some.group_stride;
    some.sums += now * 2 * some.group_stride;
    some.y += now * some.y_stride;
  }
}

}  // namespace qkv::kernels

#else

namespace qkv::kernels {
void multiply_panel_vnni(const BlockPanel& /*panel*/, const PanelRows& /*rows*/) {}
}  // namespace qkv::kernels

#endif
