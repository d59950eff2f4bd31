#include "qkv/kernels/reference/product.h"

#include "qkv/kernels/reference/doubles.h"

namespace qkv::kernels::reference {

void batched_product(const BatchedProduct& a) {
  for (int64_t b = 0; b < a.batch; ++b) {
    const float *x = a.x + b * a.m * a.k, *y = a.y + b * a.k * a.n;
    for (int64_t i = 0; i < a.m; ++i) {
      for (int64_t j = 0; j < a.n; ++j) {
        double sum = 0;
        for (int64_t l = 0; l < a.k; ++l) {
          sum += double{x[a.x_transposed ? l * a.m + i : i * a.k + l]} *
                 y[a.y_transposed ? j * a.k + l : l * a.n + j];
        }
        store_element(a.z, (b * a.m + i) * a.n + j, sum, a.accumulate);
      }
    }
  }
}

}  // namespace qkv::kernels::reference
