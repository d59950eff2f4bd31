// Columns of weights in blocks (tensor/block_dtypes.h) as parts of a panel (block_panel.h), for all
// instruction sets but AVX-512 and the scalar build, which have unpack_blocks-inl.h: a vector of columns at a
// time, whose bytes are transposed in registers. Included once per Highway target.

#if defined(QKV_KERNELS_CPU_PRODUCTS_UNPACK_COLUMNS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_KERNELS_CPU_PRODUCTS_UNPACK_COLUMNS_INL_H_
#undef QKV_KERNELS_CPU_PRODUCTS_UNPACK_COLUMNS_INL_H_
#else
#define QKV_KERNELS_CPU_PRODUCTS_UNPACK_COLUMNS_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "qkv/kernels/cpu/products/gemm_nt.h"
#include "qkv/kernels/cpu/products/int8_rows-inl.h"
#include "qkv/kernels/cpu/row-inl.h"
#include "qkv/tensor/block_dtypes.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::kernels::HWY_NAMESPACE {

// x86 adds products of bytes in pairs to 16 bits.
inline constexpr bool kAddsBytes = HWY_TARGET == HWY_SSE4 || HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3;

#if HWY_TARGET == HWY_SCALAR || (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3)
inline constexpr bool kUnpacksColumns = false;
#else
inline constexpr bool kUnpacksColumns = true;

// kSumLanes columns, and their part of a panel, whose rows have kPanelCols.
struct SomeColumns {
  const std::byte* const* at = nullptr;
  int64_t blocks = 0;
  void* numbers = nullptr;
  float* scales = nullptr;
  float* offsets = nullptr;
  // Memory to prefetch meanwhile, for each block of the columns.
  const std::byte* ahead = nullptr;
  size_t ahead_bytes = 0;
};

using Quads = hn::RebindToUnsigned<Sums>;
using QuadVector = hn::Vec<Quads>;
using QuadBytes = hn::Repartition<uint8_t, Quads>;

// 16 bytes of every fourth column.
template <class D>
HWY_INLINE hn::Vec<D> bytes_of_columns(D d, const std::byte* const* columns, int64_t at) {
  if constexpr (hn::MaxLanes(D()) == 16) {
    return hn::LoadU(d, reinterpret_cast<const uint8_t*>(columns[0] + at));
  } else {
    const hn::Half<D> half;
    constexpr size_t kUpper = hn::MaxLanes(D()) / 8;
    return hn::Combine(d, bytes_of_columns(half, columns + kUpper, at), bytes_of_columns(half, columns, at));
  }
}

// 16 bytes of each column: four[k] has the bytes 4 k to 4 k + 3 of all columns.
struct Transposed {
  QuadVector four[4];
};
HWY_INLINE Transposed transposed(const std::byte* const* columns, int64_t at) {
  const Quads d;
  const hn::Repartition<uint64_t, Quads> twos;
  QuadVector c[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) c[i] = hn::BitCast(d, bytes_of_columns(QuadBytes(), columns + i, at));
  const auto low01 = hn::BitCast(twos, hn::InterleaveLower(d, c[0], c[1]));
  const auto low23 = hn::BitCast(twos, hn::InterleaveLower(d, c[2], c[3]));
  const auto high01 = hn::BitCast(twos, hn::InterleaveUpper(d, c[0], c[1]));
  const auto high23 = hn::BitCast(twos, hn::InterleaveUpper(d, c[2], c[3]));
  return {{hn::BitCast(d, hn::InterleaveLower(twos, low01, low23)),
           hn::BitCast(d, hn::InterleaveUpper(twos, low01, low23)),
           hn::BitCast(d, hn::InterleaveLower(twos, high01, high23)),
           hn::BitCast(d, hn::InterleaveUpper(twos, high01, high23))}};
}

HWY_INLINE QuadVector masked(QuadVector v, uint32_t mask) { return hn::And(v, hn::Set(Quads(), mask)); }
HWY_INLINE QuadVector low_nibbles(QuadVector v) { return masked(v, 0x0F0F0F0F); }
HWY_INLINE QuadVector high_nibbles(QuadVector v) { return low_nibbles(hn::ShiftRight<4>(v)); }
// Bits kFrom and up of each byte, masked by `mask`, as bits kTo and up.
template <int kFrom, int kTo>
HWY_INLINE QuadVector moved(QuadVector v, uint32_t mask) {
  if constexpr (kFrom > kTo) return masked(hn::ShiftRight<kFrom - kTo>(v), mask);
  if constexpr (kFrom < kTo) return masked(hn::ShiftLeft<kTo - kFrom>(v), mask);
  return masked(v, mask);
}

// Takes numbers of columns into a panel: bytes, or for other instructions words in pairs.
template <bool kSigned>
struct IntoPanel {
  void* to;

  // Numbers 16 * sixteen and up of a block; the slot is for others.
  HWY_INLINE void take(int /*slot*/, int64_t sixteen, const Transposed& numbers) const {
    const Quads d;
    auto* const at = static_cast<uint32_t*>(to);
#pragma GCC unroll 4
    for (int64_t i = 0; i < 4; ++i) {
      const int64_t k = 4 * sixteen + i;
      const auto v = numbers.four[i];
      if constexpr (kAddsBytes) {
        hn::StoreU(v, d, at + k * kPanelCols);
      } else {
        hn::StoreU(words_of<0>(v), d, at + 2 * k * kPanelCols);
        hn::StoreU(words_of<2>(v), d, at + (2 * k + 1) * kPanelCols);
      }
    }
  }
  template <int kCount>
  HWY_INLINE void end_groups(int64_t /*first*/) const {}

 private:
  // Bytes kFirst and kFirst + 1 of each four.
  template <uint8_t kFirst>
  static HWY_INLINE QuadVector words_of(QuadVector v) {
    alignas(16) static constexpr uint8_t kOrder[16] = {kFirst,      128, kFirst + 1,  128, kFirst + 4, 128,
                                                       kFirst + 5,  128, kFirst + 8,  128, kFirst + 9, 128,
                                                       kFirst + 12, 128, kFirst + 13, 128};
    const auto bytes =
        hn::TableLookupBytesOr0(hn::BitCast(QuadBytes(), v), hn::LoadDup128(QuadBytes(), kOrder));
    auto words = hn::BitCast(Words(), bytes);
    if constexpr (kSigned) words = hn::ShiftRight<8>(hn::ShiftLeft<8>(words));
    return hn::BitCast(Quads(), words);
  }
};

HWY_INLINE Transposed low_nibbles(const Transposed& v) {
  return {{low_nibbles(v.four[0]), low_nibbles(v.four[1]), low_nibbles(v.four[2]), low_nibbles(v.four[3])}};
}
HWY_INLINE Transposed high_nibbles(const Transposed& v) {
  return {
      {high_nibbles(v.four[0]), high_nibbles(v.four[1]), high_nibbles(v.four[2]), high_nibbles(v.four[3])}};
}
// With bits kFrom and up of `more` as bits 4 and up, masked by `mask`.
template <int kFrom>
HWY_INLINE Transposed with_bits(Transposed v, const Transposed& more, uint32_t mask) {
#pragma GCC unroll 4
  for (int k = 0; k < 4; ++k) v.four[k] = hn::Or(v.four[k], moved<kFrom, 4>(more.four[k], mask));
  return v;
}

// 16 where bit 4 k + j of a column's four bytes is set, for byte j.
template <int k>
HWY_INLINE QuadVector fifth_bits(QuadVector bits) {
  constexpr uint32_t kByte = k / 2 * 0x01010101, kStep = 0x04040404;
  const QuadBytes bytes;
  const Quads d;
  alignas(16) static constexpr uint32_t kOrder[4] = {kByte, kByte + kStep, kByte + 2 * kStep,
                                                     kByte + 3 * kStep};
  const auto order = hn::BitCast(bytes, hn::LoadDup128(d, kOrder));
  const auto bit = hn::BitCast(bytes, hn::Set(d, k % 2 == 0 ? 0x08040201u : 0x80402010u));
  const auto own = hn::And(hn::TableLookupBytes(hn::BitCast(bytes, bits), order), bit);
  return masked(hn::BitCast(d, hn::VecFromMask(bytes, hn::Eq(own, bit))), 0x10101010);
}

template <int kFirst>
HWY_INLINE Transposed with_fifth_bits(Transposed v, QuadVector bits) {
  v.four[0] = hn::Or(v.four[0], fifth_bits<kFirst>(bits));
  v.four[1] = hn::Or(v.four[1], fifth_bits<kFirst + 1>(bits));
  v.four[2] = hn::Or(v.four[2], fifth_bits<kFirst + 2>(bits));
  v.four[3] = hn::Or(v.four[3], fifth_bits<kFirst + 3>(bits));
  return v;
}

// The f16 numbers in the low or the high half of each column's four bytes.
HWY_INLINE FloatVector low_halves(QuadVector v) {
  return widen(hn::DemoteTo(Halves(), hn::BitCast(Sums(), masked(v, 0xFFFF))), Float16());
}
HWY_INLINE FloatVector high_halves(QuadVector v) { return low_halves(hn::ShiftRight<16>(v)); }

// Of a block with eight groups: scales and minima in six bits each.
template <int64_t kStride>
HWY_INLINE void put_k_scales(const std::byte* const* columns, int64_t at, float* scales, float* offsets) {
  const Transposed header = transposed(columns, at);
  const QuadVector low = header.four[1], middle = header.four[2], top = header.four[3];
  constexpr uint32_t kSix = 0x3F3F3F3F, kFour = 0x0F0F0F0F, kTwo = 0x30303030;
  const auto put = [](QuadVector bytes, FloatVector factor, float* to) HWY_ATTR {
#pragma GCC unroll 4
    for (int64_t g = 0; g < 4; ++g, bytes = hn::ShiftRight<8>(bytes)) {
      const auto whole = hn::BitCast(Sums(), masked(bytes, 0xFF));
      hn::StoreU(hn::Mul(hn::ConvertTo(Floats(), whole), factor), Floats(), to + g * kStride);
    }
  };
  const FloatVector scale = low_halves(header.four[0]), minimum = hn::Neg(high_halves(header.four[0]));
  put(masked(low, kSix), scale, scales);
  put(hn::Or(masked(top, kFour), moved<6, 4>(low, kTwo)), scale, scales + 4 * kStride);
  put(masked(middle, kSix), minimum, offsets);
  put(hn::Or(moved<4, 0>(top, kFour), moved<6, 4>(middle, kTwo)), minimum, offsets + 4 * kStride);
}

// Groups g and g + 1 of a block, whose numbers are the low and the high halves of 32 bytes, and their fifth
// bits.
template <int g, class To>
HWY_INLINE void take_k_fives(const std::byte* const* columns, int64_t at, const Transposed (&fifth)[2],
                             To& to) {
  constexpr uint32_t kBit = 0x10101010;
#pragma GCC unroll 2
  for (int half = 0; half < 2; ++half) {
    const Transposed both = transposed(columns, at + 48 + 16 * (g + half));
    to.take(0, 2 * g + half, with_bits<g>(low_nibbles(both), fifth[half], kBit));
    to.take(1, 2 * g + 2 + half, with_bits<g + 1>(high_nibbles(both), fifth[half], kBit));
  }
  to.template end_groups<2>(g);
}

// 16 groups of 16 numbers, with scales in eight bits.
template <class To>
HWY_INLINE void take_q6_k(const std::byte* const* columns, int64_t at, To& to) {
  constexpr uint32_t kUpper = 0x30303030;
  for (int64_t half = 0; half < 2; ++half) {
#pragma GCC unroll 2
    for (int part = 0; part < 2; ++part) {  // of a run of 32 numbers
      const Transposed first = transposed(columns, at + 64 * half + 16 * part);
      const Transposed second = transposed(columns, at + 64 * half + 32 + 16 * part);
      const Transposed two = transposed(columns, at + 128 + 32 * half + 16 * part);
      to.take(part, 8 * half + part, with_bits<0>(low_nibbles(first), two, kUpper));
      to.take(part + 2, 8 * half + part + 2, with_bits<2>(low_nibbles(second), two, kUpper));
      to.take(part + 4, 8 * half + part + 4, with_bits<4>(high_nibbles(first), two, kUpper));
      to.take(part + 6, 8 * half + part + 6, with_bits<6>(high_nibbles(second), two, kUpper));
    }
    to.template end_groups<8>(8 * half);
  }
}
template <int64_t kStride>
HWY_INLINE void put_q6_k_scales(const std::byte* const* columns, int64_t at, float* scales) {
  const Transposed integers = transposed(columns, at + 192);
  const FloatVector factor = high_halves(transposed(columns, at + 194).four[3]);
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    QuadVector bytes = integers.four[i];
#pragma GCC unroll 4
    for (int g = 0; g < 4; ++g, bytes = hn::ShiftRight<8>(bytes)) {
      const auto whole = hn::ShiftRight<24>(hn::BitCast(Sums(), hn::ShiftLeft<24>(bytes)));
      hn::StoreU(hn::Mul(factor, hn::ConvertTo(Floats(), whole)), Floats(), scales + (4 * i + g) * kStride);
    }
  }
}

// iq4_nl's steps (block_dtypes.cc).
HWY_INLINE Transposed steps_of(Transposed v) {
  alignas(16) static constexpr int8_t kSteps[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                    1,    13,   25,  38,  53,  69,  89,  113};
  const auto steps = hn::BitCast(QuadBytes(), hn::LoadDup128(hn::Repartition<int8_t, Quads>(), kSteps));
#pragma GCC unroll 4
  for (auto& four : v.four)
    four = hn::BitCast(Quads(), hn::TableLookupBytes(steps, hn::BitCast(QuadBytes(), four)));
  return v;
}

// The integers of an encoding: whether they have a sign, their bits, and the integer that stands for 0.
constexpr bool is_signed(DType dtype) { return dtype == DType::q8_0 || dtype == DType::iq4_nl; }
constexpr int bits_of(DType dtype) {
  if (is_signed(dtype)) return 8;
  if (dtype == DType::q6_k) return 6;
  return dtype == DType::q5_0 || dtype == DType::q5_1 || dtype == DType::q5_k ? 5 : 4;
}
constexpr int zero_of(DType dtype) {
  return is_signed(dtype) || has_offsets(dtype) ? 0 : 1 << (bits_of(dtype) - 1);
}

// Gives the numbers of one block of each column to `to`, 16 at a time. A group that is not complete has a
// slot.
template <DType kDType, class To>
HWY_INLINE void take_block(const std::byte* const* columns, int64_t at, To& to) {
  if constexpr (kDType == DType::q4_k) {
#pragma GCC unroll 4
    for (int g = 0; g < 8; g += 2) {  // two groups share 32 bytes
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half) {
        const Transposed both = transposed(columns, at + 16 + 16 * (g + half));
        to.take(0, 2 * g + half, low_nibbles(both));
        to.take(1, 2 * g + 2 + half, high_nibbles(both));
      }
      to.template end_groups<2>(g);
    }
  } else if constexpr (kDType == DType::q5_k) {
    const Transposed fifth[2] = {transposed(columns, at + 16), transposed(columns, at + 32)};
    take_k_fives<0>(columns, at, fifth, to);
    take_k_fives<2>(columns, at, fifth, to);
    take_k_fives<4>(columns, at, fifth, to);
    take_k_fives<6>(columns, at, fifth, to);
  } else if constexpr (kDType == DType::q6_k) {
    take_q6_k(columns, at, to);
  } else {
    constexpr int64_t kHeader = has_offsets(kDType) ? 4 : 2;
    if constexpr (kDType == DType::q8_0) {
      to.take(0, 0, transposed(columns, at + kHeader));
      to.take(0, 1, transposed(columns, at + kHeader + 16));
    } else if constexpr (kDType == DType::iq4_nl) {
      const Transposed both = transposed(columns, at + kHeader);
      to.take(0, 0, steps_of(low_nibbles(both)));
      to.take(0, 1, steps_of(high_nibbles(both)));
    } else if constexpr (kDType == DType::q4_0 || kDType == DType::q4_1) {
      const Transposed both = transposed(columns, at + kHeader);
      to.take(0, 0, low_nibbles(both));
      to.take(0, 1, high_nibbles(both));
    } else {
      const QuadVector fifth = transposed(columns, at + kHeader).four[0];
      const Transposed both = transposed(columns, at + kHeader + 4);
      to.take(0, 0, with_fifth_bits<0>(low_nibbles(both), fifth));
      to.take(0, 1, with_fifth_bits<4>(high_nibbles(both), fifth));
    }
    to.template end_groups<1>(0);
  }
}

// The scales of one block, and the offsets of encodings that have some; those of a group are kStride after
// the previous one's.
template <DType kDType, int64_t kStride>
HWY_INLINE void put_scales(const std::byte* const* columns, int64_t at, float* scales, float* offsets) {
  if constexpr (kDType == DType::q6_k) {
    put_q6_k_scales<kStride>(columns, at, scales);
  } else if constexpr (kDType == DType::q4_k || kDType == DType::q5_k) {
    put_k_scales<kStride>(columns, at, scales, offsets);
  } else {
    const QuadVector header = transposed(columns, at).four[0];
    hn::StoreU(low_halves(header), Floats(), scales);
    if constexpr (has_offsets(kDType)) hn::StoreU(high_halves(header), Floats(), offsets);
  }
}

template <DType kDType>
HWY_NOINLINE void unpack_columns(const SomeColumns& columns) {
  constexpr DTypeLayout kLayout = layout_of(kDType);
  constexpr int64_t kScales = kLayout.block / group_of(kDType) * kPanelCols;
  constexpr int64_t kNumberBytes = kLayout.block * kPanelCols * (kAddsBytes ? 1 : 2);
  const std::byte *ahead = columns.ahead, *const *const from = columns.at;
  const size_t ahead_bytes = columns.ahead_bytes;
  float *scales = columns.scales, *offsets = columns.offsets;
  auto* numbers = static_cast<std::byte*>(columns.numbers);
  const int64_t end = columns.blocks * static_cast<int64_t>(kLayout.bytes);
  for (int64_t at = 0; at < end; at += static_cast<int64_t>(kLayout.bytes)) {
    for (size_t line = 0; line < ahead_bytes; line += 64) __builtin_prefetch(ahead + line, 0, 2);
    put_scales<kDType, kPanelCols>(from, at, scales, offsets);
    IntoPanel<is_signed(kDType)> panel{numbers};
    take_block<kDType>(from, at, panel);
    ahead += ahead_bytes;
    scales += kScales;
    offsets += kScales;
    numbers += kNumberBytes;
  }
}

struct Encoding {
  DType dtype;
  int bits, zero;
  void (*unpack)(const SomeColumns& columns);
};

template <DType kDType>
inline constexpr Encoding kEncodingOf{kDType, bits_of(kDType), zero_of(kDType), unpack_columns<kDType>};

inline constexpr Encoding kEncodings[] = {
    kEncodingOf<DType::q8_0>, kEncodingOf<DType::q4_0>, kEncodingOf<DType::q4_1>,
    kEncodingOf<DType::q5_0>, kEncodingOf<DType::q5_1>, kEncodingOf<DType::q4_k>,
    kEncodingOf<DType::q5_k>, kEncodingOf<DType::q6_k>, kEncodingOf<DType::iq4_nl>};

#endif

}  // namespace qkv::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
