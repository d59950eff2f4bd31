#include <algorithm>

#include "qkv/base/parallel.h"
#include "qkv/kernels/backend/cache_entry.h"
#include "qkv/kernels/cpu/kernels.h"

namespace qkv::kernels::cpu {

void store_cached(const CacheStore& a) {
  const size_t bytes = bytes_of(a.dtype, a.key_width + a.value_width);
  const float *keys = a.keys, *values = a.values;
  for (const CacheRow& row : a.to) {
    for (size_t i = 0; i < row.numbers.size(); ++i, keys += a.key_stride, values += a.value_stride) {
      std::byte* const entry = cache_entry(row, i, bytes);
      if (a.dtype == DType::bf16) {
        auto* const to = reinterpret_cast<BFloat16*>(entry);
        round_to_bf16(keys, to, a.key_width);
        round_to_bf16(values, to + a.key_width, a.value_width);
      } else {
        std::copy_n(values, a.value_width, std::copy_n(keys, a.key_width, reinterpret_cast<float*>(entry)));
      }
    }
  }
}

void load_cached(const CacheLoad& a) {
  const size_t bytes = bytes_of(a.dtype, a.width);
  float* to = a.to;
  for (const CacheRow& row : a.from) {
    const auto positions = static_cast<int64_t>(row.numbers.size());
    parallel_for(positions, 64, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        const std::byte* const entry = cache_entry(row, static_cast<size_t>(i), bytes);
        if (a.dtype == DType::bf16) {
          widen_rows({.data = entry, .dtype = DType::bf16, .rows = 1, .cols = a.width}, to + i * a.width);
        } else {
          std::copy_n(reinterpret_cast<const float*>(entry), a.width, to + i * a.width);
        }
      }
    });
    to += positions * a.width;
  }
}

}  // namespace qkv::kernels::cpu
