// Blocks of weights (tensor/block_dtypes.h) as bytes, scales and offsets, a column at a time, with AVX-512
// and in the scalar build: a row of kEncodings for each dtype. Included once per Highway target.

#if defined(QKV_KERNELS_CPU_PRODUCTS_UNPACK_BLOCKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_KERNELS_CPU_PRODUCTS_UNPACK_BLOCKS_INL_H_
#undef QKV_KERNELS_CPU_PRODUCTS_UNPACK_BLOCKS_INL_H_
#else
#define QKV_KERNELS_CPU_PRODUCTS_UNPACK_BLOCKS_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <cstring>

#include "qkv/kernels/cpu/products/unpack_columns-inl.h"
#include "qkv/kernels/cpu/row-inl.h"
#include "qkv/tensor/block_dtypes.h"
#include "qkv/tensor/half.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::kernels::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR || (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3)

// Unpacks `count` blocks: number i is (numbers[i] - zero) * scale of its group + the group's offset, with the
// encoding's zero. Offsets are written for encodings that have some.
using Unpack = void (*)(const std::byte* blocks, int64_t count, uint8_t* numbers, float* scales,
                        float* offsets);

struct Encoding {
  DType dtype;
  int bits;  // numbers are below 2^bits
  int zero;  // the number that stands for 0
  Unpack unpack;
  // Likewise, without the numbers; null in the scalar build, which has no use for it.
  Unpack unpack_scales;
};

#if HWY_TARGET != HWY_SCALAR

using Bytes16 = hn::Full128<uint8_t>;
using Vector16 = hn::Vec<Bytes16>;

HWY_INLINE Vector16 bytes_at(const std::byte* from) {
  return hn::LoadU(Bytes16(), reinterpret_cast<const uint8_t*>(from));
}
HWY_INLINE Vector16 all(int byte) { return hn::Set(Bytes16(), static_cast<uint8_t>(byte)); }
template <int kBits>
HWY_INLINE Vector16 shifted(Vector16 v) {  // bytes to the right; bits of neighbours enter at the top
  const hn::Repartition<uint16_t, Bytes16> words;
  return hn::BitCast(Bytes16(), hn::ShiftRight<kBits>(hn::BitCast(words, v)));
}
template <int kBits>
HWY_INLINE Vector16 shifted_left(Vector16 v) {
  const hn::Repartition<uint16_t, Bytes16> words;
  return hn::BitCast(Bytes16(), hn::ShiftLeft<kBits>(hn::BitCast(words, v)));
}
HWY_INLINE Vector16 low_nibbles(Vector16 v) { return hn::And(v, all(15)); }
HWY_INLINE Vector16 high_nibbles(Vector16 v) { return hn::And(shifted<4>(v), all(15)); }

HWY_INLINE void put(uint8_t* to, Vector16 first, Vector16 second) {
  hn::StoreU(first, Bytes16(), to);
  hn::StoreU(second, Bytes16(), to + 16);
}

// 16 where the bit is set: byte i has bit i of two bytes.
HWY_INLINE Vector16 fifth_bits(uint32_t two_bytes) {
  alignas(16) static constexpr uint8_t kByte[16] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1};
  alignas(16) static constexpr uint8_t kBit[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
  const hn::Repartition<uint16_t, Bytes16> words;
  const auto both = hn::BitCast(Bytes16(), hn::Set(words, static_cast<uint16_t>(two_bytes)));
  const auto bit = hn::Load(Bytes16(), kBit);
  const auto own = hn::And(hn::TableLookupBytes(both, hn::Load(Bytes16(), kByte)), bit);
  return hn::And(hn::VecFromMask(Bytes16(), hn::Eq(own, bit)), all(16));
}

HWY_INLINE uint16_t half_bits(const std::byte* from) {
  uint16_t bits;
  std::memcpy(&bits, from, sizeof bits);
  return bits;
}
HWY_INLINE uint32_t word_bits(const std::byte* from) {
  uint32_t bits;
  std::memcpy(&bits, from, sizeof bits);
  return bits;
}

// The f16 numbers at the same place of each block.
HWY_INLINE void widen_halves_of(const std::byte* blocks, int64_t count, size_t bytes, float* to) {
  const Floats d;
  constexpr int64_t kMost = static_cast<int64_t>(hn::MaxLanes(Floats()));
  HWY_ALIGN uint16_t bits[kMost];
  for (int64_t first = 0; first < count; first += kMost) {
    const int64_t some = std::min(kMost, count - first);
    for (int64_t i = 0; i < some; ++i) bits[i] = half_bits(blocks + static_cast<size_t>(first + i) * bytes);
    if (some == kMost) {
      hn::StoreU(widen(hn::Load(Halves(), bits), Float16()), d, to + first);
    } else {
      for (int64_t i = 0; i < some; ++i) to[first + i] = widened(Float16{bits[i]});
    }
  }
}

// One group a block.
template <DType kDType>
HWY_NOINLINE void unpack_halves(const std::byte* blocks, int64_t count, uint8_t* /*numbers*/, float* scales,
                                float* offsets) {
  constexpr size_t kBytes = layout_of(kDType).bytes;
  widen_halves_of(blocks, count, kBytes, scales);
  if constexpr (has_offsets(kDType)) widen_halves_of(blocks + 2, count, kBytes, offsets);
}

template <DType kDType, int kHeader, class Put>
HWY_INLINE void unpack_simple(const std::byte* blocks, int64_t count, uint8_t* numbers, float* scales,
                              float* offsets, const Put& put_numbers) {
  constexpr size_t kBytes = layout_of(kDType).bytes;
  unpack_halves<kDType>(blocks, count, numbers, scales, offsets);
  for (int64_t b = 0; b < count; ++b, blocks += kBytes, numbers += 32) put_numbers(blocks + kHeader, numbers);
}

HWY_NOINLINE void unpack_q8_0(const std::byte* blocks, int64_t count, uint8_t* numbers, float* scales,
                              float* offsets) {
  unpack_simple<DType::q8_0, 2>(
      blocks, count, numbers, scales, offsets, [](const std::byte* from, uint8_t* to) HWY_ATTR {
        put(to, hn::Xor(bytes_at(from), all(128)), hn::Xor(bytes_at(from + 16), all(128)));
      });
}

template <DType kDType, int kHeader>
HWY_NOINLINE void unpack_nibbles(const std::byte* blocks, int64_t count, uint8_t* numbers, float* scales,
                                 float* offsets) {
  unpack_simple<kDType, kHeader>(blocks, count, numbers, scales, offsets,
                                 [](const std::byte* from, uint8_t* to) HWY_ATTR {
                                   const auto both = bytes_at(from);
                                   put(to, low_nibbles(both), high_nibbles(both));
                                 });
}

template <DType kDType, int kHeader>
HWY_NOINLINE void unpack_fives(const std::byte* blocks, int64_t count, uint8_t* numbers, float* scales,
                               float* offsets) {
  unpack_simple<kDType, kHeader>(blocks, count, numbers, scales, offsets,
                                 [](const std::byte* from, uint8_t* to) HWY_ATTR {
                                   const uint32_t bits = word_bits(from);
                                   const auto both = bytes_at(from + 4);
                                   put(to, hn::Or(low_nibbles(both), fifth_bits(bits & 0xFFFF)),
                                       hn::Or(high_nibbles(both), fifth_bits(bits >> 16)));
                                 });
}

HWY_NOINLINE void unpack_iq4_nl(const std::byte* blocks, int64_t count, uint8_t* numbers, float* scales,
                                float* offsets) {
  // block_dtypes.cc's steps, plus 128.
  alignas(16) static constexpr uint8_t kSteps[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                                                     129, 141, 153, 166, 181, 197, 217, 241};
  unpack_simple<DType::iq4_nl, 2>(blocks, count, numbers, scales, offsets,
                                  [](const std::byte* from, uint8_t* to) HWY_ATTR {
                                    const auto steps = hn::Load(Bytes16(), kSteps), both = bytes_at(from);
                                    put(to, hn::TableLookupBytes(steps, low_nibbles(both)),
                                        hn::TableLookupBytes(steps, high_nibbles(both)));
                                  });
}

// to[i] = factor * byte i. The bytes pass through memory as they were stored, whole: a processor waits for a
// load that takes parts of several stores.
HWY_INLINE void put_multiples(uint64_t eight_bytes, float factor, float* to) {
  const hn::CappedTag<float, 8> d;
  const hn::RebindToSigned<decltype(d)> whole;
  const hn::Rebind<uint8_t, decltype(d)> bytes;
  alignas(8) uint8_t each[8];
  std::memcpy(each, &eight_bytes, sizeof each);
  for (size_t i = 0; i < 8; i += hn::Lanes(d)) {
    const auto integers = hn::PromoteTo(whole, hn::LoadU(bytes, each + i));
    hn::StoreU(hn::Mul(hn::ConvertTo(d, integers), hn::Set(d, factor)), d, to + i);
  }
}

// The scales and minima of eight groups, six bits each.
HWY_INLINE void unpack_k_scales(const std::byte* block, float* scales, float* offsets) {
  const uint64_t low = word_bits(block + 4), middle = word_bits(block + 8), top = word_bits(block + 12);
  constexpr uint64_t kSix = 0x3F3F3F3F, kFour = 0x0F0F0F0F, kTwo = 0x03030303;
  const uint64_t later_scales = (top & kFour) | (low >> 6 & kTwo) << 4;
  const uint64_t later_minima = (top >> 4 & kFour) | (middle >> 6 & kTwo) << 4;
  put_multiples((low & kSix) | later_scales << 32, widened(Float16{half_bits(block)}), scales);
  put_multiples((middle & kSix) | later_minima << 32, -widened(Float16{half_bits(block + 2)}), offsets);
}

template <DType kDType>
HWY_NOINLINE void unpack_all_k_scales(const std::byte* blocks, int64_t count, uint8_t* /*numbers*/,
                                      float* scales, float* offsets) {
  for (int64_t b = 0; b < count; ++b, blocks += layout_of(kDType).bytes)
    unpack_k_scales(blocks, scales + 8 * b, offsets + 8 * b);
}

HWY_NOINLINE void unpack_q4_k(const std::byte* blocks, int64_t count, uint8_t* numbers, float* scales,
                              float* offsets) {
  unpack_all_k_scales<DType::q4_k>(blocks, count, numbers, scales, offsets);
  for (int64_t b = 0; b < count; ++b, blocks += layout_of(DType::q4_k).bytes) {
    uint8_t* const own = numbers + 256 * b;
    for (int64_t g = 0; g < 8; g += 2) {
      const auto first = bytes_at(blocks + 16 + 16 * g), second = bytes_at(blocks + 32 + 16 * g);
      put(own + 32 * g, low_nibbles(first), low_nibbles(second));
      put(own + 32 * g + 32, high_nibbles(first), high_nibbles(second));
    }
  }
}

HWY_NOINLINE void unpack_q5_k(const std::byte* blocks, int64_t count, uint8_t* numbers, float* scales,
                              float* offsets) {
  unpack_all_k_scales<DType::q5_k>(blocks, count, numbers, scales, offsets);
  for (int64_t b = 0; b < count; ++b, blocks += layout_of(DType::q5_k).bytes) {
    uint8_t* const own = numbers + 256 * b;
    auto fifth = bytes_at(blocks + 16), later = bytes_at(blocks + 32);  // bit g belongs to group g
    for (int64_t g = 0; g < 8; g += 2) {
      const auto first = bytes_at(blocks + 48 + 16 * g), second = bytes_at(blocks + 64 + 16 * g);
      const auto low = [](Vector16 v) HWY_ATTR { return hn::And(shifted_left<4>(v), all(16)); };
      const auto high = [](Vector16 v) HWY_ATTR { return hn::And(shifted_left<3>(v), all(16)); };
      put(own + 32 * g, hn::Or(low_nibbles(first), low(fifth)), hn::Or(low_nibbles(second), low(later)));
      put(own + 32 * g + 32, hn::Or(high_nibbles(first), high(fifth)),
          hn::Or(high_nibbles(second), high(later)));
      fifth = shifted<2>(fifth);
      later = shifted<2>(later);
    }
  }
}

// 16 groups of 16.
HWY_NOINLINE void unpack_q6_k_scales(const std::byte* blocks, int64_t count, uint8_t* /*numbers*/,
                                     float* scales, float* /*offsets*/) {
  for (int64_t b = 0; b < count; ++b, blocks += layout_of(DType::q6_k).bytes) {
    const float scale = widened(Float16{half_bits(blocks + 208)});
    for (int g = 0; g < 16; ++g)
      scales[16 * b + g] = scale * static_cast<float>(std::to_integer<int8_t>(blocks[192 + g]));
  }
}

HWY_NOINLINE void unpack_q6_k(const std::byte* blocks, int64_t count, uint8_t* numbers, float* scales,
                              float* offsets) {
  unpack_q6_k_scales(blocks, count, numbers, scales, offsets);
  for (int64_t b = 0; b < count; ++b, blocks += layout_of(DType::q6_k).bytes) {
    for (int64_t half = 0; half < 2; ++half) {
      uint8_t* const own = numbers + 256 * b + 128 * half;
      const std::byte* const low = blocks + 64 * half;
      const std::byte* const high = blocks + 128 + 32 * half;
      for (int64_t part = 0; part < 2; ++part) {  // of a run of 32 numbers
        const auto two = bytes_at(high + 16 * part);
        const auto first = bytes_at(low + 16 * part), second = bytes_at(low + 32 + 16 * part);
        const auto upper = [](Vector16 v) HWY_ATTR { return hn::And(v, all(48)); };
        uint8_t* const at = own + 16 * part;
        hn::StoreU(hn::Or(low_nibbles(first), upper(shifted_left<4>(two))), Bytes16(), at);
        hn::StoreU(hn::Or(low_nibbles(second), upper(shifted_left<2>(two))), Bytes16(), at + 32);
        hn::StoreU(hn::Or(high_nibbles(first), upper(two)), Bytes16(), at + 64);
        hn::StoreU(hn::Or(high_nibbles(second), upper(shifted<2>(two))), Bytes16(), at + 96);
      }
    }
  }
}

inline constexpr Encoding kEncodings[] = {
    {DType::q8_0, 8, 128, unpack_q8_0, unpack_halves<DType::q8_0>},
    {DType::q4_0, 4, 8, unpack_nibbles<DType::q4_0, 2>, unpack_halves<DType::q4_0>},
    {DType::q4_1, 4, 0, unpack_nibbles<DType::q4_1, 4>, unpack_halves<DType::q4_1>},
    {DType::q5_0, 5, 16, unpack_fives<DType::q5_0, 2>, unpack_halves<DType::q5_0>},
    {DType::q5_1, 5, 0, unpack_fives<DType::q5_1, 4>, unpack_halves<DType::q5_1>},
    {DType::iq4_nl, 8, 128, unpack_iq4_nl, unpack_halves<DType::iq4_nl>},
    {DType::q4_k, 4, 0, unpack_q4_k, unpack_all_k_scales<DType::q4_k>},
    {DType::q5_k, 5, 0, unpack_q5_k, unpack_all_k_scales<DType::q5_k>},
    {DType::q6_k, 6, 32, unpack_q6_k, unpack_q6_k_scales}};

#else  // HWY_SCALAR: by tensor/block_dtypes.h

template <DType kDType, int kZero>
HWY_NOINLINE void unpack_plainly(const std::byte* blocks, int64_t count, uint8_t* numbers, float* scales,
                                 float* offsets) {
  constexpr int64_t kWidth = group_of(kDType), kGroups = layout_of(kDType).block / kWidth;
  NumberGroup groups[kGroups];
  for (int64_t b = 0; b < count; ++b, blocks += layout_of(kDType).bytes) {
    read_block(kDType, blocks, groups);
    for (const NumberGroup& group : groups) {
      for (int64_t i = 0; i < kWidth; ++i) *numbers++ = static_cast<uint8_t>(group.integers[i] + kZero);
      *scales++ = group.scale;
      if constexpr (has_offsets(kDType)) *offsets++ = group.offset;
    }
  }
}

inline constexpr Encoding kEncodings[] = {
    {DType::q8_0, 8, 128, unpack_plainly<DType::q8_0, 128>, nullptr},
    {DType::q4_0, 4, 8, unpack_plainly<DType::q4_0, 8>, nullptr},
    {DType::q4_1, 4, 0, unpack_plainly<DType::q4_1, 0>, nullptr},
    {DType::q5_0, 5, 16, unpack_plainly<DType::q5_0, 16>, nullptr},
    {DType::q5_1, 5, 0, unpack_plainly<DType::q5_1, 0>, nullptr},
    {DType::iq4_nl, 8, 128, unpack_plainly<DType::iq4_nl, 128>, nullptr},
    {DType::q4_k, 4, 0, unpack_plainly<DType::q4_k, 0>, nullptr},
    {DType::q5_k, 5, 0, unpack_plainly<DType::q5_k, 0>, nullptr},
    {DType::q6_k, 6, 32, unpack_plainly<DType::q6_k, 32>, nullptr}};

#endif

#endif

HWY_INLINE const Encoding& encoding_of(DType dtype) {
  const Encoding* found = kEncodings;
  while (found->dtype != dtype) ++found;
  return *found;
}

}  // namespace qkv::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
