#pragma once
// Copies keys and values between tensors and the positions of a cache.

#include <span>

#include "qkv/kernels/cache_block_table.h"

namespace qkv::kernels {

// Position i of the rows, one after the other, = row i of keys [positions, key width] and values [positions,
// value width], f32 or bf16, any row stride; rounded for a cache of dtype bf16 or q8_0 (CacheStore).
void store_cached(const Tensor& keys, const Tensor& values, DType dtype, std::span<const CacheRow> to);

// The inverse: [positions, width] of the dtype `result`, f32 or bf16, on `device`; width: of keys and values
// together.
Tensor load_cached(std::span<const CacheRow> from, DType dtype, Device device, int64_t width, DType result);

// Position i of `to` = position i of `from`, the same bytes; width: of keys and values together.
void copy_cached(const CacheRow& from, const CacheRow& to, DType dtype, Device device, int64_t width);

}  // namespace qkv::kernels
