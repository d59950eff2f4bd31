// The entries of a KV cache: f32 numbers to the cache's dtype and back. Included once per Highway target.

#if defined(QKV_KERNELS_CPU_ATTENTION_CACHE_ENTRY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_KERNELS_CPU_ATTENTION_CACHE_ENTRY_INL_H_
#undef QKV_KERNELS_CPU_ATTENTION_CACHE_ENTRY_INL_H_
#else
#define QKV_KERNELS_CPU_ATTENTION_CACHE_ENTRY_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "qkv/kernels/cpu/row-inl.h"
#include "qkv/tensor/half.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::kernels::HWY_NAMESPACE {

// q8_0: blocks of 32 numbers, an f16 scale and the integers.
inline constexpr int64_t kCacheBlock = layout_of(DType::q8_0).block;
inline constexpr size_t kCacheBlockBytes = layout_of(DType::q8_0).bytes;

// to[i] = number first + i of an entry, for i < count. Exact.
HWY_INLINE void widen_entry(DType dtype, const std::byte* entry, int64_t first, int64_t count,
                            float* HWY_RESTRICT to) {
  if (dtype == DType::f32) {
    std::copy_n(reinterpret_cast<const float*>(entry) + first, count, to);
    return;
  }
  if (dtype == DType::bf16) {
    const auto* HWY_RESTRICT from = reinterpret_cast<const BFloat16*>(entry) + first;
    for (int64_t i = 0; i < count; ++i) {
      const uint32_t bits = static_cast<uint32_t>(from[i].bits) << 16;
      std::memcpy(to + i, &bits, sizeof(bits));
    }
    return;
  }
  for (int64_t end = first + count; first < end;) {
    const std::byte* const block = entry + static_cast<size_t>(first / kCacheBlock) * kCacheBlockBytes;
    const int64_t within = first % kCacheBlock, own = std::min(kCacheBlock - within, end - first);
    Float16 scale;
    std::memcpy(&scale, block, sizeof(scale));
    const float factor = widened(scale);
    const auto* HWY_RESTRICT from = reinterpret_cast<const int8_t*>(block + sizeof(scale)) + within;
    for (int64_t i = 0; i < own; ++i) to[i] = factor * static_cast<float>(from[i]);
    to += own;
    first += own;
  }
}

// The inverse, for an entry's numbers from its first on: rounded to nearest, ties to even. q8_0 (whole
// blocks): the scale is the f16 nearest to a 127th of the largest magnitude, an integer the nearest to the
// number divided by it, from -127 to 127. A block with a NaN, an infinity or a scale beyond f16's range
// becomes NaN.
HWY_INLINE std::byte* round_to_q8_0(const float* HWY_RESTRICT from, int64_t count, std::byte* to) {
  const hn::CappedTag<float, 16> d;
  const hn::Rebind<int8_t, decltype(d)> bytes;
  constexpr float kMost = 127;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (const float* const end = from + count; from < end; from += kCacheBlock, to += kCacheBlockBytes) {
    auto largest = hn::Zero(d), flaw = hn::Zero(d);
    for (int64_t i = 0; i < kCacheBlock; i += lanes) {
      const auto v = hn::LoadU(d, from + i);
      largest = hn::Max(largest, hn::Abs(v));
      flaw = hn::Add(flaw, hn::Sub(v, v));  // NaN if v is not finite
    }
    const bool finite = hn::GetLane(hn::SumOfLanes(d, flaw)) == 0;
    const Float16 scale = nearest_f16(finite ? hn::GetLane(hn::MaxOfLanes(d, largest)) / kMost
                                             : std::numeric_limits<float>::quiet_NaN());
    std::memcpy(to, &scale, sizeof(scale));
    auto* const integers = reinterpret_cast<int8_t*>(to + sizeof(scale));
    const float step = widened(scale);
    if (!finite || step == 0) {
      std::fill_n(integers, kCacheBlock, int8_t{0});
      continue;
    }
    for (int64_t i = 0; i < kCacheBlock; i += lanes) {
      const auto level = hn::Div(hn::LoadU(d, from + i), hn::Set(d, step));
      const auto inside = hn::Min(hn::Max(level, hn::Set(d, -kMost)), hn::Set(d, kMost));
      hn::StoreU(hn::DemoteTo(bytes, hn::NearestInt(inside)), bytes, integers + i);
    }
  }
  return to;
}

}  // namespace qkv::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
