#include <algorithm>

#include "qkv/kernels/cpu/kernels.h"

namespace qkv::kernels::cpu {

void store_cached(const CacheStore& a) {
  for (int64_t i = 0; i < a.count; ++i) {
    const float *keys = a.keys + i * a.key_stride, *values = a.values + i * a.value_stride;
    if (a.dtype == DType::bf16) {
      auto* to = static_cast<BFloat16*>(a.to[i]);
      round_to_bf16(keys, to, a.key_width);
      round_to_bf16(values, to + a.key_width, a.value_width);
    } else {
      auto* to = static_cast<float*>(a.to[i]);
      std::copy_n(values, a.value_width, std::copy_n(keys, a.key_width, to));
    }
  }
}

void load_cached(const CacheLoad& a) {
  const int64_t width = a.key_width + a.value_width;
  for (int64_t i = 0; i < a.count; ++i) {
    float* to = a.to + i * width;
    if (a.dtype == DType::bf16) {
      widen_rows({.data = a.from[i], .dtype = DType::bf16, .rows = 1, .cols = width}, to);
    } else {
      std::copy_n(static_cast<const float*>(a.from[i]), width, to);
    }
  }
}

}  // namespace qkv::kernels::cpu
