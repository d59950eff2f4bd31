#pragma once
// Copies keys and values between tensors and cache entries (CacheStore in qkv/kernels/backend/attention.h).

#include <span>

#include "qkv/tensor/tensor.h"

namespace qkv::kernels {

// Entry i = row i of keys [entries, key width] and values [entries, value width], f32, any row stride. `to`:
// addresses on their device.
void store_cached(const Tensor& keys, const Tensor& values, DType dtype, std::span<void* const> to);

// The inverse: f32 [entries, key_width + value_width] on `device`.
Tensor load_cached(std::span<const void* const> from, DType dtype, Device device, int64_t key_width,
                   int64_t value_width);

}  // namespace qkv::kernels
