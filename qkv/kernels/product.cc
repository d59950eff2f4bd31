#include "qkv/kernels/product.h"

#include "qkv/kernels/dispatch.h"

namespace qkv::kernels {

void batched_product(const Tensor& x, const Tensor& y, Transposed transposed, Tensor& z,
                     Accumulate accumulate) {
  if (z.numel() == 0) return;
  const int64_t m = z.dim(-2), n = z.dim(-1), k = x.dim(transposed == Transposed::x ? -2 : -1);
  count_macs(static_cast<uint64_t>(z.numel() * k));
  count_elements(x.numel() + y.numel() + memory_passes(accumulate) * z.numel());
  backend_of("matmul", z, x, y)
      .batched_product({.x = address(x),
                        .y = address(y),
                        .z = address(z),
                        .batch = z.numel() / (m * n),
                        .m = m,
                        .k = k,
                        .n = n,
                        .x_transposed = transposed == Transposed::x,
                        .y_transposed = transposed == Transposed::y,
                        .accumulate = accumulate});
}

}  // namespace qkv::kernels
