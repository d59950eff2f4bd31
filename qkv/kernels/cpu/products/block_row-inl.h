// Products of one row of inputs with weights in blocks (block_panel.h), whose numbers are multiplied in the
// registers in which they are unpacked, for instructions that add products of bytes. Included once per
// Highway target.

#if defined(QKV_KERNELS_CPU_PRODUCTS_BLOCK_ROW_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_KERNELS_CPU_PRODUCTS_BLOCK_ROW_INL_H_
#undef QKV_KERNELS_CPU_PRODUCTS_BLOCK_ROW_INL_H_
#else
#define QKV_KERNELS_CPU_PRODUCTS_BLOCK_ROW_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "qkv/kernels/cpu/products/block_panel.h"
#include "qkv/kernels/cpu/products/grouped_rows.h"
#include "qkv/kernels/cpu/products/unpack_columns-inl.h"
#include "qkv/kernels/cpu/row-inl.h"
#include "qkv/tensor/block_dtypes.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::kernels::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

// left.u8 * right.i8, in pairs. Requires sums that fit into 16 bits.
#if HWY_TARGET == HWY_SSE4
HWY_INLINE hn::Vec<Words> add_bytes(hn::Vec<Sums> left, hn::Vec<Sums> right) {
  return hn::Vec<Words>{_mm_maddubs_epi16(left.raw, right.raw)};
}
#elif HWY_TARGET == HWY_AVX2
HWY_INLINE hn::Vec<Words> add_bytes(hn::Vec<Sums> left, hn::Vec<Sums> right) {
  return hn::Vec<Words>{_mm256_maddubs_epi16(left.raw, right.raw)};
}
#elif HWY_TARGET == HWY_AVX3
HWY_INLINE hn::Vec<Words> add_bytes(hn::Vec<Sums> left, hn::Vec<Sums> right) {
  return hn::Vec<Words>{_mm512_maddubs_epi16(left.raw, right.raw)};
}
#else
HWY_INLINE hn::Vec<Words> add_bytes(hn::Vec<Sums> /*left*/, hn::Vec<Sums> /*right*/) {
  return hn::Zero(Words());
}
#endif

// Bytes: -v where the other number is below 0, and 0 where it is 0.
HWY_INLINE hn::Vec<Sums> with_sign_of(hn::Vec<Sums> v, [[maybe_unused]] hn::Vec<Sums> other) {
#if HWY_TARGET == HWY_SSE4
  return hn::Vec<Sums>{_mm_sign_epi8(v.raw, other.raw)};
#elif HWY_TARGET == HWY_AVX2
  return hn::Vec<Sums>{_mm256_sign_epi8(v.raw, other.raw)};
#else
  return v;
#endif
}

// weights * inputs, in pairs. Weights with a sign give it to the inputs, as the left factors of add_bytes()
// have none.
template <bool kSigned>
HWY_INLINE hn::Vec<Words> products_of(hn::Vec<Sums> weights, hn::Vec<Sums> inputs) {
  if constexpr (kSigned) {
    const hn::Repartition<int8_t, Sums> bytes;
    return add_bytes(hn::BitCast(Sums(), hn::Abs(hn::BitCast(bytes, weights))),
                     with_sign_of(inputs, weights));
  } else {
    return add_bytes(weights, inputs);
  }
}

// The number of products whose sum fits into 16 bits, for weights of `bits` bits.
constexpr int products_together(int bits) { return bits == 4 ? 8 : bits == 5 ? 4 : bits == 6 ? 2 : 1; }

// Four inputs, for all columns.
HWY_INLINE hn::Vec<Sums> four_inputs(const int8_t* from) {
  int32_t four;
  std::memcpy(&four, from, sizeof four);
  return hn::Set(Sums(), four);
}

#endif

#if HWY_TARGET != HWY_SCALAR && !(HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3)

// Takes numbers of columns (take_block), and adds a row's products with them to a vector of results.
template <DType kDType>
class RowSums {
 public:
  // The row's inputs from the columns' first number on, and scales and offsets of a block.
  HWY_INLINE RowSums(const PanelRows& row, const float* scales, const float* offsets)
      : x_(static_cast<const int8_t*>(row.numbers)),
        x_scales_(row.scales),
        x_shifts_(row.shifts),
        x_sums_(row.sums),
        scales_(scales),
        offsets_(offsets),
        y_(hn::LoadU(Floats(), row.y)) {
#pragma GCC unroll 8
    for (auto& sum : sums_) sum = hn::Zero(Sums());
  }

  HWY_INLINE void take(int slot, int64_t sixteen, const Transposed& numbers) {
    constexpr int kTogether = std::min(products_together(bits_of(kDType)), 4);
    const auto ones = hn::Set(Words(), int16_t{1});
#pragma GCC unroll 4
    for (int first = 0; first < 4; first += kTogether) {
      auto some = hn::Zero(Words());
#pragma GCC unroll 4
      for (int k = first; k < first + kTogether; ++k)
        some = hn::Add(some, products_of<is_signed(kDType)>(hn::BitCast(Sums(), numbers.four[k]),
                                                            four_inputs(x_ + 16 * sixteen + 4 * k)));
      auto unused = hn::Zero(Sums());  // x86 adds all products to the first sums
      sums_[slot] = hn::ReorderWidenMulAccumulate(Sums(), some, ones, sums_[slot], unused);
    }
  }

  template <int kCount>
  HWY_INLINE void end_groups(int64_t first) {
    constexpr bool kWhole = group_of(kDType) == GroupedRows::kGroup;  // a group of the inputs, or half of one
    constexpr int kZero = zero_of(kDType);
    const Floats floats;
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) {
      const int64_t g = first + i, place = kWhole ? g : g / 2;
      auto sum = sums_[i];
      if constexpr (kZero > 0) {
        auto inputs = hn::Set(Sums(), x_sums_[kWhole ? 2 * g : g]);
        if constexpr (kWhole) inputs = hn::Add(inputs, hn::Set(Sums(), x_sums_[2 * g + 1]));
        sum = hn::Sub(sum, hn::Mul(inputs, hn::Set(Sums(), kZero)));
      }
      const auto scale =
          hn::Mul(hn::Load(floats, scales_ + g * kSumLanes), hn::Set(floats, x_scales_[place]));
      y_ = hn::MulAdd(hn::ConvertTo(floats, sum), scale, y_);
      if constexpr (has_offsets(kDType))
        y_ = hn::MulAdd(hn::Load(floats, offsets_ + g * kSumLanes), hn::Set(floats, x_shifts_[place]), y_);
      sums_[i] = hn::Zero(Sums());
    }
  }

  HWY_INLINE void end_block() {
    constexpr int64_t kBlock = layout_of(kDType).block, kGroups = kBlock / GroupedRows::kGroup;
    x_ += kBlock;
    x_scales_ += kGroups;
    x_shifts_ += kGroups;
    x_sums_ += 2 * kGroups;
  }
  HWY_INLINE FloatVector results() const { return y_; }

 private:
  const int8_t* x_;
  const float *x_scales_, *x_shifts_;
  const int32_t* x_sums_;
  const float *scales_, *offsets_;
  FloatVector y_;
  hn::Vec<Sums> sums_[kDType == DType::q6_k ? 8 : kDType == DType::q4_k || kDType == DType::q5_k ? 2 : 1];
};

// Adds the products of a row with kSumLanes columns to its results.
template <DType kDType>
HWY_NOINLINE void multiply_row(const SomeColumns& columns, const PanelRows& row) {
  constexpr DTypeLayout kLayout = layout_of(kDType);
  HWY_ALIGN float scales[kLayout.block / group_of(kDType) * kSumLanes];
  HWY_ALIGN float offsets[has_offsets(kDType) ? kLayout.block / group_of(kDType) * kSumLanes : 1];
  const std::byte *ahead = columns.ahead, *const *const from = columns.at;
  const size_t ahead_bytes = columns.ahead_bytes;
  const int64_t end = columns.blocks * static_cast<int64_t>(kLayout.bytes);
  RowSums<kDType> sums(row, scales, offsets);
  for (int64_t at = 0; at < end; at += static_cast<int64_t>(kLayout.bytes)) {
    for (size_t line = 0; line < ahead_bytes; line += 64) __builtin_prefetch(ahead + line, 0, 2);
    ahead += ahead_bytes;
    put_scales<kDType, kSumLanes>(from, at, scales, offsets);
    take_block<kDType>(from, at, sums);
    sums.end_block();
  }
  hn::StoreU(sums.results(), Floats(), row.y);
}

// The product with weights of a dtype in blocks, by multiply_row(), or null.
using MultiplyRow = void (*)(const SomeColumns& columns, const PanelRows& row);
template <size_t kPlace = 0>
HWY_INLINE MultiplyRow multiply_row_of(DType dtype) {
  if constexpr (kAddsBytes && kPlace < kBlockDTypes.size()) {
    return dtype == kBlockDTypes[kPlace] ? multiply_row<kBlockDTypes[kPlace]>
                                         : multiply_row_of<kPlace + 1>(dtype);
  } else {
    return nullptr;
  }
}

#endif

}  // namespace qkv::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
