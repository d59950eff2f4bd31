#include <algorithm>

#include "qkv/base/parallel.h"
#include "qkv/kernels/backend/cache_entry.h"
#include "qkv/kernels/cpu/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "qkv/kernels/cpu/attention/cache.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "qkv/kernels/cpu/attention/cache_entry-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::kernels::HWY_NAMESPACE {
namespace {

// Keys or values of a position; returns the end.
std::byte* round_entry(DType dtype, const float* from, int64_t count, std::byte* to) {
  if (dtype == DType::q8_0) return round_to_q8_0(from, count, to);
  if (dtype == DType::bf16) {
    cpu::round_to_bf16(from, reinterpret_cast<BFloat16*>(to), count);
  } else {
    std::copy_n(from, count, reinterpret_cast<float*>(to));
  }
  return to + bytes_of(dtype, count);
}

void load_entries(const CacheLoad& a, const CacheRow& row, int64_t first, int64_t last, float* to) {
  const size_t bytes = bytes_of(a.dtype, a.width);
  for (int64_t i = first; i < last; ++i)
    widen_entry(a.dtype, cache_entry(row, static_cast<size_t>(i), bytes), 0, a.width, to + i * a.width);
}

void store_entries(const CacheStore& a) {
  const size_t bytes = bytes_of(a.dtype, a.key_width + a.value_width);
  const float *keys = a.keys.f32(), *values = a.values.f32();
  for (const CacheRow& row : a.to) {
    for (size_t i = 0; i < row.numbers.size(); ++i, keys += a.key_stride, values += a.value_stride) {
      std::byte* const entry = cache_entry(row, i, bytes);
      round_entry(a.dtype, values, a.value_width, round_entry(a.dtype, keys, a.key_width, entry));
    }
  }
}

}  // namespace
}  // namespace qkv::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qkv::kernels::cpu {

HWY_EXPORT(store_entries);
HWY_EXPORT(load_entries);

void store_cached(const CacheStore& a) { HWY_DYNAMIC_DISPATCH(store_entries)(a); }

void load_cached(const CacheLoad& a) {
  float* to = a.to.f32();
  for (const CacheRow& row : a.from) {
    const auto positions = static_cast<int64_t>(row.numbers.size());
    parallel_for(positions, 64, [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(load_entries)(a, row, first, last, to);
    });
    to += positions * a.width;
  }
}

void copy_cached(const CacheCopy& a) {
  for (size_t i = 0; i < a.from.numbers.size(); ++i)
    std::copy_n(cache_entry(a.from, i, a.bytes), a.bytes, cache_entry(a.to, i, a.bytes));
}

}  // namespace qkv::kernels::cpu
#endif  // HWY_ONCE
