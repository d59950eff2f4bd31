// Sums of products of 8-bit numbers with AVX-512 VNNI: one instruction multiplies 64 pairs and adds them in
// groups of four.

#include "qkv/kernels/cpu/products/int8_sums.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(HWY_COMPILE_ONLY_SCALAR)

#include <immintrin.h>

#include <algorithm>

// GCC 12 warns about unused operands within its own intrinsics; with sanitizers under the second name.
#pragma GCC diagnostic ignored "-Wuninitialized"
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#define QKV_VNNI __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))

namespace qkv::kernels {
namespace {

constexpr int64_t kLanes = 64;

// sum += products, in place: with the intrinsic, GCC 12 copies each sum to another register and back.
QKV_VNNI inline void add_products(__m512i& sum, __m512i left, __m512i right) {
  asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(left), "v"(right));
}

// The sums of the lanes of four vectors.
QKV_VNNI inline __m128i sums_of_lanes(__m512i a, __m512i b, __m512i c, __m512i d) {
  const __m512i ab = _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
  const __m512i cd = _mm512_add_epi32(_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
  const __m512i sums = _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
  const __m256i half = _mm256_add_epi32(_mm512_castsi512_si256(sums), _mm512_extracti64x4_epi64(sums, 1));
  return _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
}

// R rows by C columns (a multiple of four); w[c] points to column c's weights.
template <int R, int C>
QKV_VNNI void tile(const uint8_t* q, int64_t q_stride, const int8_t* const* w, int64_t w_stride,
                   int64_t inner, int32_t* sums) {
  __m512i sum[R][C];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) sum[r][c] = _mm512_setzero_si512();
  }
  int64_t i = 0;
  for (; i + kLanes <= inner; i += kLanes) {
    __m512i left[R];
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) left[r] = _mm512_loadu_si512(q + r * q_stride + i);
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) {
      const __m512i right = _mm512_loadu_si512(w[c] + i);
      if constexpr (R == 1) __builtin_prefetch(w[c] + i + C * w_stride);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) add_products(sum[r][c], left[r], right);
    }
  }
  if (i < inner) {
    const __mmask64 rest = (__mmask64{1} << (inner - i)) - 1;
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) {
      const __m512i right = _mm512_maskz_loadu_epi8(rest, w[c] + i);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        add_products(sum[r][c], _mm512_loadu_si512(q + r * q_stride + i), right);
      }
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int c = 0; c < C; c += 4) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(sums + r * kPartCols + c),
                       sums_of_lanes(sum[r][c], sum[r][c + 1], sum[r][c + 2], sum[r][c + 3]));
    }
  }
}

}  // namespace

bool machine_has_vnni() {
  static const bool answer = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                             __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni");
  return answer;
}

void int8_sums_vnni(const GemmTile& part, int32_t* sums) {
  constexpr int kRows = 3, kCols = 8;
  const auto* first = static_cast<const int8_t*>(part.w);
  for (int64_t col = 0; col < part.cols; col += kCols) {
    const int8_t* w[kCols];
    // Past the last column, the last one is computed again.
    for (int64_t c = 0; c < kCols; ++c) w[c] = first + std::min(col + c, part.cols - 1) * part.w_stride;
    for (int64_t row = 0; row < part.rows; row += kRows) {
      const uint8_t* const q = part.q + row * part.q_stride;
      int32_t* const to = sums + row * kPartCols + col;
      switch (std::min<int64_t>(kRows, part.rows - row)) {
        case 1:
          tile<1, kCols>(q, part.q_stride, w, part.w_stride, part.inner, to);
          break;
        case 2:
          tile<2, kCols>(q, part.q_stride, w, part.w_stride, part.inner, to);
          break;
        default:
          tile<kRows, kCols>(q, part.q_stride, w, part.w_stride, part.inner, to);
      }
    }
  }
}

}  // namespace qkv::kernels

#else

namespace qkv::kernels {
bool machine_has_vnni() { return false; }
void int8_sums_vnni(const GemmTile& /*part*/, int32_t* /*sums*/) {}
}  // namespace qkv::kernels

#endif
