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

// 16 bytes of each of 16 columns, transposed: part[k] has the bytes 4 k to 4 k + 3 of all columns.
struct Transposed {
  __m512i part[4];
};

// Each 128-bit lane transposes four bytes of four columns.
QKV_VNNI inline Transposed transposed(const std::byte* const* columns, int64_t at) {
  const auto sixteen = [&](int col) QKV_VNNI {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(columns[col] + at));
  };
  __m512i c[4];  // columns c, c + 4, c + 8 and c + 12
#pragma GCC unroll 4
  for (int k = 0; k < 4; ++k) {
    const __m256i low = _mm256_inserti128_si256(_mm256_castsi128_si256(sixteen(k)), sixteen(k + 4), 1);
    const __m256i high = _mm256_inserti128_si256(_mm256_castsi128_si256(sixteen(k + 8)), sixteen(k + 12), 1);
    c[k] = _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
  }
  const __m512i low01 = _mm512_unpacklo_epi32(c[0], c[1]), low23 = _mm512_unpacklo_epi32(c[2], c[3]);
  const __m512i high01 = _mm512_unpackhi_epi32(c[0], c[1]), high23 = _mm512_unpackhi_epi32(c[2], c[3]);
  return {{_mm512_unpacklo_epi64(low01, low23), _mm512_unpackhi_epi64(low01, low23),
           _mm512_unpacklo_epi64(high01, high23), _mm512_unpackhi_epi64(high01, high23)}};
}

// The low halves of 16 bytes of each column, and the high ones.
QKV_VNNI inline void put_halves(const Transposed& both, uint8_t* low, uint8_t* high) {
  const __m512i nibble = _mm512_set1_epi8(15);
#pragma GCC unroll 4
  for (int k = 0; k < 4; ++k) {
    _mm512_storeu_si512(low + 64 * k, _mm512_and_si512(both.part[k], nibble));
    _mm512_storeu_si512(high + 64 * k, _mm512_and_si512(_mm512_srli_epi16(both.part[k], 4), nibble));
  }
}

constexpr int64_t kGroupBytes = GroupedRows::kGroup * kVnniCols;  // of a panel

QKV_VNNI void pack_q8_0(const std::byte* const* columns, int64_t groups, uint8_t* panel) {
  const __m512i shift = _mm512_set1_epi8(-128);
  for (int64_t g = 0; g < groups; ++g, panel += kGroupBytes) {
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      const Transposed bytes = transposed(columns, g * 34 + 2 + 16 * half);
#pragma GCC unroll 4
      for (int k = 0; k < 4; ++k)
        _mm512_storeu_si512(panel + half * kGroupBytes / 2 + 64 * k, _mm512_xor_si512(bytes.part[k], shift));
    }
  }
}

QKV_VNNI void pack_nibbles(const std::byte* const* columns, int64_t groups, int64_t block, int64_t header,
                           uint8_t* panel) {
  for (int64_t g = 0; g < groups; ++g, panel += kGroupBytes)
    put_halves(transposed(columns, g * block + header), panel, panel + kGroupBytes / 2);
}

// Two groups share 32 bytes.
QKV_VNNI void pack_q4_k(const std::byte* const* columns, int64_t groups, uint8_t* panel) {
  for (int64_t g = 0; g < groups; g += 2, panel += 2 * kGroupBytes) {
    const int64_t at = g / 8 * 144 + 16 + g % 8 * 16;
#pragma GCC unroll 2
    for (int64_t half = 0; half < 2; ++half) {
      uint8_t* const to = panel + half * kGroupBytes / 2;
      put_halves(transposed(columns, at + 16 * half), to, to + kGroupBytes);
    }
  }
}

}  // namespace

QKV_VNNI void pack_blocks_vnni(DType dtype, const std::byte* const* columns, int64_t groups, uint8_t* panel) {
  switch (dtype) {
    case DType::q8_0:
      return pack_q8_0(columns, groups, panel);
    case DType::q4_0:
      return pack_nibbles(columns, groups, 18, 2, panel);
    case DType::q4_1:
      return pack_nibbles(columns, groups, 20, 4, panel);
    default:
      return pack_q4_k(columns, groups, panel);
  }
}

QKV_VNNI void pack_bytes_vnni(const uint8_t* columns, int64_t stride, int64_t count, uint8_t* panel) {
  const std::byte* each[kVnniCols];
  for (int64_t c = 0; c < kVnniCols; ++c) each[c] = reinterpret_cast<const std::byte*>(columns) + c * stride;
  for (int64_t i = 0; i < count; i += 16, panel += 16 * kVnniCols) {
    const Transposed bytes = transposed(each, i);
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) _mm512_storeu_si512(panel + 64 * k, bytes.part[k]);
  }
}

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
    some.drop(now, sizeof(int8_t));
  }
}

}  // namespace qkv::kernels

#else

namespace qkv::kernels {
void pack_blocks_vnni(DType /*dtype*/, const std::byte* const* /*columns*/, int64_t /*groups*/,
                      uint8_t* /*panel*/) {}
void pack_bytes_vnni(const uint8_t* /*columns*/, int64_t /*stride*/, int64_t /*count*/, uint8_t* /*panel*/) {}
void multiply_panel_vnni(const BlockPanel& /*panel*/, const PanelRows& /*rows*/) {}
}  // namespace qkv::kernels

#endif
