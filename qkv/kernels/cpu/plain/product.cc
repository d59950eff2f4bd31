#include "qkv/kernels/backend/product.h"

#include <algorithm>
#include <span>

#include "qkv/kernels/cpu/kernels.h"
#include "qkv/kernels/cpu/matmul.h"

namespace qkv::kernels::cpu {

void batched_product(const BatchedProduct& a) {
  for (int64_t b = 0; b < a.batch; ++b) {
    const float *x = a.x + b * a.m * a.k, *y = a.y + b * a.k * a.n;
    float* z = a.z + b * a.m * a.n;
    const MutableMatrix to{z, a.m, a.n, a.n};
    if (a.k == 0) {
      if (a.accumulate == Accumulate::no) std::fill_n(z, a.m * a.n, 0.0f);
    } else if (a.x_transposed) {
      matmul_transposed_a({x, a.k, a.m, a.m}, {y, a.k, a.n, a.n}, to, a.accumulate);
    } else {
      const Matrix right = a.y_transposed ? Matrix{y, a.n, a.k, a.k} : Matrix{y, a.k, a.n, a.n};
      const std::span<const Matrix> block(&right, 1);
      const PackedMatrix packed =
          a.y_transposed ? PackedMatrix::transposed(block) : PackedMatrix::plain(block);
      matmul({x, a.m, a.k, a.k}, packed, nullptr, to, a.accumulate);
    }
  }
}

}  // namespace qkv::kernels::cpu
