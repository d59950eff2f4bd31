// Sums of products of 8-bit numbers with AMX: one instruction multiplies a tile of 16 x 64 numbers by one of
// 64 x 16.
//
// The weights are the left-hand tiles, in place: 16 columns of the result by 64 numbers. The inputs are the
// right-hand tiles, in groups of four numbers (pack_amx_tiles), and the sums result column by column.

#include "qkv/kernels/cpu/products/int8_sums.h"

#if defined(__x86_64__) && defined(__linux__) && !defined(HWY_COMPILE_ONLY_SCALAR)

#include <asm/prctl.h>
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

// GCC 12 warns about unused operands within its own intrinsics; with sanitizers under the second name.
#pragma GCC diagnostic ignored "-Wuninitialized"
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#define QKV_AMX __attribute__((target("avx512f,avx512bw,amx-tile,amx-int8")))

namespace qkv::kernels {
namespace {

constexpr int kTileData = 18;                      // the state component of the tiles, in XCR0
constexpr int64_t kTile = kAmxRows;                // also the number of weight columns
constexpr int64_t kTileBytes = kTile * kAmxDepth;  // also of a tile of sums
static_assert(kSumRows % kTile == 0 && kPartCols % kTile == 0);

// Of all eight tile registers: 16 rows of 64 bytes.
struct __attribute__((packed)) TileConfiguration {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

// to[i][j] = from[j][i], 32 bits each; strides in bytes.
QKV_AMX void transpose(const void* from, int64_t from_stride, void* to, int64_t to_stride) {
  __m512i a[16], b[16];
  const auto* const source = static_cast<const char*>(from);
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) a[i] = _mm512_loadu_si512(source + i * from_stride);
    // Within each 128-bit block: pairs, then groups of four.
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    b[i] = _mm512_unpacklo_epi32(a[i], a[i + 1]);
    b[i + 1] = _mm512_unpackhi_epi32(a[i], a[i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    a[i] = _mm512_unpacklo_epi64(b[i], b[i + 2]);
    a[i + 1] = _mm512_unpackhi_epi64(b[i], b[i + 2]);
    a[i + 2] = _mm512_unpacklo_epi64(b[i + 1], b[i + 3]);
    a[i + 3] = _mm512_unpackhi_epi64(b[i + 1], b[i + 3]);
  }
  // Then between blocks: block k of a[4 g + r] is column 4 k + r of the rows 4 g to 4 g + 3.
#pragma GCC unroll 4
  for (int r = 0; r < 4; ++r) {
    b[r] = _mm512_shuffle_i32x4(a[r], a[4 + r], 0x88);
    b[4 + r] = _mm512_shuffle_i32x4(a[r], a[4 + r], 0xdd);
    b[8 + r] = _mm512_shuffle_i32x4(a[8 + r], a[12 + r], 0x88);
    b[12 + r] = _mm512_shuffle_i32x4(a[8 + r], a[12 + r], 0xdd);
  }
  auto* const target = static_cast<char*>(to);
#pragma GCC unroll 4
  for (int r = 0; r < 4; ++r) {
    _mm512_storeu_si512(target + r * to_stride, _mm512_shuffle_i32x4(b[r], b[8 + r], 0x88));
    _mm512_storeu_si512(target + (8 + r) * to_stride, _mm512_shuffle_i32x4(b[r], b[8 + r], 0xdd));
    _mm512_storeu_si512(target + (4 + r) * to_stride, _mm512_shuffle_i32x4(b[4 + r], b[12 + r], 0x88));
    _mm512_storeu_si512(target + (12 + r) * to_stride, _mm512_shuffle_i32x4(b[4 + r], b[12 + r], 0xdd));
  }
}

// Left-hand tiles: sixteen columns from `first`, in place if the tile is complete, otherwise from a
// zero-padded copy.
class Columns {
 public:
  Columns(const GemmTile& part, int64_t first)
      : first_(static_cast<const int8_t*>(part.w) + first * part.w_stride),
        inner_(part.inner),
        stride_(part.w_stride),
        count_(std::min(kTile, part.cols - first)) {}

  int64_t inner() const { return inner_; }
  int64_t stride() const { return stride_; }
  // The end of complete tiles.
  int64_t whole() const { return count_ == kTile ? inner_ / kAmxDepth * kAmxDepth : 0; }
  const int8_t* at(int64_t i) const { return first_ + i; }

  // Prefetches the numbers from i on of some of the columns `ahead` columns later, distributed over `turns`
  // calls.
  void prefetch(int64_t i, int64_t ahead, int64_t turn, int64_t turns) const {
    for (int64_t c = kTile * turn / turns; c < kTile * (turn + 1) / turns; ++c)
      __builtin_prefetch(at(i) + (ahead + c) * stride_);
  }

  // The tile at i, with a stride of kAmxDepth.
  const int8_t* copy(int64_t i, int8_t* to) const {
    std::fill_n(to, kTileBytes, int8_t{0});
    for (int64_t c = 0; c < count_; ++c)
      std::copy_n(at(i) + c * stride_, std::min(kAmxDepth, inner_ - i), to + c * kAmxDepth);
    return to;
  }

 private:
  const int8_t* first_;
  int64_t inner_, stride_, count_;
};

// Tiles 0 to 3 hold sums, 4 and 5 columns, 6 and 7 rows.
template <int C, int R>
QKV_AMX inline void multiply(const int8_t* const (&columns)[C], int64_t stride,
                             const uint8_t* const (&rows)[R], int64_t i) {
  _tile_loadd(4, columns[0], stride);
  _tile_loadd(6, rows[0] + i * kTile, kAmxDepth);
  _tile_dpbsud(0, 4, 6);
  if constexpr (R > 1) {
    _tile_loadd(7, rows[R - 1] + i * kTile, kAmxDepth);
    _tile_dpbsud(1, 4, 7);
  }
  if constexpr (C > 1) {
    _tile_loadd(5, columns[C - 1], stride);
    _tile_dpbsud(2, 5, 6);
    if constexpr (R > 1) _tile_dpbsud(3, 5, 7);
  }
}

// 16 C columns by 16 R rows; rows[r] points to the tiles of the r-th sixteen rows. Several calls with the
// same columns share the prefetching of the next ones.
template <int C, int R>
QKV_AMX void block(const Columns (&columns)[C], const uint8_t* const (&rows)[R], int64_t turn, int64_t turns,
                   int32_t* sums) {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  const int64_t inner = columns[0].inner(), stride = columns[0].stride(), whole = columns[C - 1].whole();
  const int8_t* at[C];
  for (int64_t i = 0; i < whole; i += kAmxDepth) {
    for (int c = 0; c < C; ++c) {
      at[c] = columns[c].at(i);
      columns[c].prefetch(i, C * kTile, turn, turns);
    }
    multiply<C, R>(at, stride, rows, i);
  }
  alignas(64) int8_t copies[C][kTileBytes];
  for (int64_t i = whole; i < inner; i += kAmxDepth) {
    for (int c = 0; c < C; ++c) at[c] = columns[c].copy(i, copies[c]);
    multiply<C, R>(at, kAmxDepth, rows, i);
  }
  alignas(64) int32_t turned[kTile * kTile];
  constexpr int64_t kStride = kPartCols * static_cast<int64_t>(sizeof(int32_t));
  const auto put = [&](int64_t c, int64_t r) QKV_AMX {
    transpose(turned, kTile * static_cast<int64_t>(sizeof(int32_t)), sums + r * kTile * kPartCols + c * kTile,
              kStride);
  };
  _tile_stored(0, turned, kAmxDepth);
  put(0, 0);
  if constexpr (R > 1) {
    _tile_stored(1, turned, kAmxDepth);
    put(0, 1);
  }
  if constexpr (C > 1) {
    _tile_stored(2, turned, kAmxDepth);
    put(1, 0);
  }
  if constexpr (C > 1 && R > 1) {
    _tile_stored(3, turned, kAmxDepth);
    put(1, 1);
  }
}

template <int C>
QKV_AMX void columns_by_all_rows(const Columns (&columns)[C], const GemmTile& part, int32_t* sums) {
  const int64_t tiles = (part.rows + kTile - 1) / kTile, bytes = kTile * part.q_stride;
  const int64_t turns = (tiles + 1) / 2;
  for (int64_t tile = 0; tile < tiles; tile += 2) {
    int32_t* const to = sums + tile * kTile * kPartCols;
    if (tile + 1 < tiles) {
      block<C, 2>(columns, {part.q + tile * bytes, part.q + (tile + 1) * bytes}, tile / 2, turns, to);
    } else {
      block<C, 1>(columns, {part.q + tile * bytes}, tile / 2, turns, to);
    }
  }
}

}  // namespace

bool machine_has_amx() {
  // Intel's manual, volume 2, CPUID: leaf 7, EDX. Clang 14 has no names for these features.
  constexpr unsigned kAmxTile = 1u << 24, kAmxInt8 = 1u << 25;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!machine_has_vnni() || __get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  if ((d & kAmxTile) == 0 || (d & kAmxInt8) == 0) return false;
  uint64_t features = 0;  // supported by this kernel; unknown to Linux before 5.16
  return ::syscall(SYS_arch_prctl, ARCH_GET_XCOMP_SUPP, &features) == 0 && (features >> kTileData & 1) != 0;
}

bool request_amx() { return ::syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, kTileData) == 0; }

QKV_AMX void pack_amx_tiles(const uint8_t* rows, int64_t stride, uint8_t* tiles) {
  for (int64_t i = 0; i < stride; i += kAmxDepth) transpose(rows + i, stride, tiles + i * kTile, kAmxDepth);
}

QKV_AMX void int8_sums_amx(const GemmTile& part, int32_t* sums) {
  const TileConfiguration configuration;
  _tile_loadconfig(&configuration);
  for (int64_t col = 0; col < part.cols; col += 2 * kTile) {
    const Columns left(part, col);
    if (col + kTile < part.cols) {
      columns_by_all_rows<2>({left, Columns(part, col + kTile)}, part, sums + col);
    } else {
      columns_by_all_rows<1>({left}, part, sums + col);
    }
  }
  _tile_release();
}

}  // namespace qkv::kernels

#else

namespace qkv::kernels {
bool machine_has_amx() { return false; }
bool request_amx() { return false; }
void pack_amx_tiles(const uint8_t* /*rows*/, int64_t /*stride*/, uint8_t* /*tiles*/) {}
void int8_sums_amx(const GemmTile& /*part*/, int32_t* /*sums*/) {}
}  // namespace qkv::kernels

#endif
