// Dropout of rows, with columns as lanes. Included once per Highway target.

#if defined(QKV_KERNELS_CPU_DROPOUT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_KERNELS_CPU_DROPOUT_INL_H_
#undef QKV_KERNELS_CPU_DROPOUT_INL_H_
#else
#define QKV_KERNELS_CPU_DROPOUT_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

#include "qkv/base/philox.h"
#include "qkv/kernels/cpu/row-inl.h"
#include "qkv/kernels/dropout.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::kernels::HWY_NAMESPACE {

// Columns for which bits are drawn at once: one kilobyte, which stays in the L1 cache.
inline constexpr int64_t kDropoutColumns = 512;

#if HWY_TARGET != HWY_SCALAR

// Philox blocks `block` of rows `row` (one per 64-bit lane; upper halves are ignored), whose four words are
// stored contiguously, block by block. Lane 2i computes block i, lane 2i + 1 block lanes / 2 + i, so that no
// shuffle crosses lanes.
template <class D64>
HWY_INLINE void draw_blocks(D64 d64, const Dropout& dropout, hn::Vec<D64> row, hn::Vec<D64> block,
                            uint64_t* HWY_RESTRICT out) {
  const hn::Repartition<uint32_t, D64> d32;
  // Only the lower halves matter: MulEven multiplies these.
  const auto multiplier0 = hn::Set(d32, philox::kMultiplier0),
             multiplier1 = hn::Set(d32, philox::kMultiplier1);
  auto c0 = hn::Add(row, hn::Set(d64, uint64_t{dropout.first_row})), c1 = block;
  auto c2 = hn::Set(d64, uint64_t{dropout.site}), c3 = hn::Set(d64, uint64_t{dropout.step});
  uint32_t k0 = static_cast<uint32_t>(dropout.seed), k1 = static_cast<uint32_t>(dropout.seed >> 32);
#pragma GCC unroll 10
  for (int round = 0; round < philox::kRounds; ++round) {
    const auto product0 = hn::MulEven(hn::BitCast(d32, c0), multiplier0);
    const auto product1 = hn::MulEven(hn::BitCast(d32, c2), multiplier1);
    c0 = hn::Xor3(hn::ShiftRight<32>(product1), c1, hn::Set(d64, uint64_t{k0}));
    c1 = product1;
    c2 = hn::Xor3(hn::ShiftRight<32>(product0), c3, hn::Set(d64, uint64_t{k1}));
    c3 = product0;
    k0 += philox::kWeyl0;
    k1 += philox::kWeyl1;
  }
  const auto pair = [&](auto low, auto high) HWY_ATTR {
    return hn::BitCast(d64, hn::OddEven(hn::BitCast(d32, hn::ShiftLeft<32>(high)), hn::BitCast(d32, low)));
  };
  const auto words01 = pair(c0, c1), words23 = pair(c2, c3);
  hn::StoreU(hn::InterleaveLower(d64, words01, words23), d64, out);
  hn::StoreU(hn::InterleaveUpper(d64, words01, words23), d64, out + hn::Lanes(d64));
}

// 0, lanes / 2, 1, lanes / 2 + 1, ...: the block of each lane of draw_blocks().
template <class D64>
HWY_INLINE hn::Vec<D64> block_of_lane(D64 d64) {
  const auto lane = hn::Iota(d64, 0), one = hn::Set(d64, uint64_t{1});
  const auto odd = hn::Eq(hn::And(lane, one), one);
  return hn::Add(hn::ShiftRight<1>(lane), hn::IfThenElseZero(odd, hn::Set(d64, hn::Lanes(d64) / 2)));
}

// The 16 bits for each of the columns [first, first + count) of a row; first is a multiple of 8. Writes in
// steps, up to kDropoutColumns numbers, possibly more than count.
HWY_INLINE void draw_dropout_bits(const Dropout& dropout, uint32_t row, int64_t first, int64_t count,
                                  uint16_t* HWY_RESTRICT out) {
  const hn::ScalableTag<uint64_t> d64;
  const uint64_t lanes = hn::Lanes(d64);
  auto block = hn::Add(block_of_lane(d64), hn::Set(d64, static_cast<uint64_t>(first) / 8));
  const auto rows = hn::Set(d64, uint64_t{row});
  const auto step = hn::Set(d64, lanes);
  auto* words = reinterpret_cast<uint64_t*>(out);
  for (int64_t column = 0; column < count; column += static_cast<int64_t>(16 * lanes)) {
    draw_blocks(d64, dropout, rows, block, words);
    block = hn::Add(block, step);
    draw_blocks(d64, dropout, rows, block, words + 2 * lanes);
    block = hn::Add(block, step);
    words += 4 * lanes;
  }
}

// The 16 bits for each weight of a tile: `rows` rows from `row`, with `blocks` Philox blocks of eight columns
// each from `block`, row by row. blocks <= 8, rows <= 64. May write up to 128 bytes more.
HWY_INLINE void draw_dropout_tile(const Dropout& dropout, uint32_t row, int64_t rows, uint32_t block,
                                  int64_t blocks, uint16_t* HWY_RESTRICT out) {
  const hn::ScalableTag<uint64_t> d64;
  const hn::Repartition<uint32_t, decltype(d64)> d32;
  const uint64_t lanes = hn::Lanes(d64), per_row = static_cast<uint64_t>(blocks);
  // Division of numbers below 512 by 1 to 8.
  const auto reciprocal = hn::Set(d32, static_cast<uint32_t>((65536 + per_row - 1) / per_row));
  const auto divisor = hn::Set(d32, static_cast<uint32_t>(per_row));
  const auto first_row = hn::Set(d64, uint64_t{row}), first_block = hn::Set(d64, uint64_t{block});
  auto place = block_of_lane(d64);
  auto* words = reinterpret_cast<uint64_t*>(out);
  for (uint64_t i = 0; i < static_cast<uint64_t>(rows) * per_row; i += lanes, words += 2 * lanes) {
    const auto r = hn::ShiftRight<16>(hn::MulEven(hn::BitCast(d32, place), reciprocal));
    const auto b = hn::Sub(place, hn::MulEven(hn::BitCast(d32, r), divisor));
    draw_blocks(d64, dropout, hn::Add(first_row, r), hn::Add(first_block, b), words);
    place = hn::Add(place, hn::Set(d64, lanes));
  }
}

#else

HWY_INLINE void draw_dropout_bits(const Dropout& dropout, uint32_t row, int64_t first, int64_t count,
                                  uint16_t* HWY_RESTRICT out) {
  for (int64_t column = 0; column < count; column += 8) {
    const auto words = philox4x32(
        dropout.seed,
        {dropout.first_row + row, static_cast<uint32_t>(first + column) / 8, dropout.site, dropout.step});
    for (int64_t i = 0; i < 4; ++i) {
      out[column + 2 * i] = static_cast<uint16_t>(words[static_cast<size_t>(i)] & 0xFFFFu);
      out[column + 2 * i + 1] = static_cast<uint16_t>(words[static_cast<size_t>(i)] >> 16);
    }
  }
}

HWY_INLINE void draw_dropout_tile(const Dropout& dropout, uint32_t row, int64_t rows, uint32_t block,
                                  int64_t blocks, uint16_t* HWY_RESTRICT out) {
  for (int64_t r = 0; r < rows; ++r) {
    draw_dropout_bits(dropout, row + static_cast<uint32_t>(r), int64_t{block} * 8, blocks * 8,
                      out + r * blocks * 8);
  }
}

#endif

// Dropout row by row; KeepAll is the version without dropout.
class DropSome {
 public:
  explicit DropSome(const Dropout& dropout)
      : dropout_(dropout), threshold_(static_cast<int32_t>(dropout.threshold())), scale_(dropout.scale()) {}

  // Call before apply(): columns [first, first + count) of a row; count <= kDropoutColumns.
  HWY_INLINE void draw(int64_t row, int64_t first, int64_t count) {
    draw_dropout_bits(dropout_, static_cast<uint32_t>(row), first, count, bits_);
  }

  // v: the columns from first + i.
  HWY_INLINE FloatVector apply(Floats d, FloatVector v, int64_t i) const {
    const hn::Rebind<int32_t, Floats> d32;
    const hn::Rebind<uint16_t, Floats> d16;
    const auto bits = hn::PromoteTo(d32, hn::LoadU(d16, bits_ + i));
    const auto kept = hn::RebindMask(d, hn::Gt(bits, hn::Set(d32, threshold_ - 1)));
    return hn::IfThenElseZero(kept, hn::Mul(v, hn::Set(d, scale_)));
  }

 private:
  const Dropout& dropout_;
  int32_t threshold_;
  float scale_;
  HWY_ALIGN uint16_t bits_[kDropoutColumns];
};

class KeepAll {
 public:
  explicit KeepAll(const Dropout& /*dropout*/) {}
  HWY_INLINE void draw(int64_t /*row*/, int64_t /*first*/, int64_t /*count*/) {}
  HWY_INLINE FloatVector apply(Floats /*d*/, FloatVector v, int64_t /*i*/) const { return v; }
};

// Calls body(part, column, i) for the vectors of a row, with dropout.apply(d, v, i) available for each.
template <class Drop, class Body>
HWY_INLINE void for_dropped_row(Floats d, Drop& drop, int64_t row, int64_t cols, const Body& body) {
  for (int64_t first = 0; first < cols; first += kDropoutColumns) {
    const int64_t count = std::min(kDropoutColumns, cols - first);
    drop.draw(row, first, count);
    for_vectors(d, count, [&](auto part, int64_t i) HWY_ATTR { body(part, first + i, i); });
  }
}

}  // namespace qkv::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
