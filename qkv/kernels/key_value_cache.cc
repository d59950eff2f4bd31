#include "qkv/kernels/key_value_cache.h"

#include "qkv/kernels/dispatch.h"

namespace qkv::kernels {

void store_cached(const Tensor& keys, const Tensor& values, DType dtype, std::span<void* const> to) {
  backend_of("store_cached", keys, values)
      .store_cached({.count = std::ssize(to),
                     .key_width = keys.cols(),
                     .value_width = values.cols(),
                     .keys = address(keys),
                     .values = address(values),
                     .key_stride = keys.row_stride(),
                     .value_stride = values.row_stride(),
                     .dtype = dtype,
                     .to = to.data()});
}

Tensor load_cached(std::span<const void* const> from, DType dtype, Device device, int64_t key_width,
                   int64_t value_width) {
  Tensor to = Tensor::empty({std::ssize(from), key_width + value_width}, DType::f32, device);
  backend(device).load_cached({.count = std::ssize(from),
                               .key_width = key_width,
                               .value_width = value_width,
                               .dtype = dtype,
                               .from = from.data(),
                               .to = address(to)});
  return to;
}

}  // namespace qkv::kernels
