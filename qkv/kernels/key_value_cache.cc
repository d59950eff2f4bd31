#include "qkv/kernels/key_value_cache.h"

#include <bit>

#include "qkv/kernels/dispatch.h"

namespace qkv::kernels {

void store_cached(const Tensor& keys, const Tensor& values, DType dtype, std::span<const CacheRow> to) {
  backend_of("store_cached", keys, values)
      .store_cached({.key_width = keys.cols(),
                     .value_width = values.cols(),
                     .keys = elements(keys),
                     .values = elements(values),
                     .key_stride = keys.row_stride(),
                     .value_stride = values.row_stride(),
                     .dtype = dtype,
                     .to = to});
}

Tensor load_cached(std::span<const CacheRow> from, DType dtype, Device device, int64_t width, DType result) {
  int64_t positions = 0;
  for (const CacheRow& row : from) positions += std::ssize(row.numbers);
  // Sizes are powers of two: a prompt that is read in chunks loads ever more positions, and the allocator
  // keeps blocks of each size.
  const auto rows = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(positions)));
  Tensor to = Tensor::empty({rows, width}, result, device).slice_rows(0, positions);
  backend(device).load_cached({.width = width, .dtype = dtype, .from = from, .to = mutable_elements(to)});
  return to;
}

void copy_cached(const CacheRow& from, const CacheRow& to, DType dtype, Device device, int64_t width) {
  backend(device).copy_cached({.from = from, .to = to, .bytes = bytes_of(dtype, width)});
}

}  // namespace qkv::kernels
