#include "qkv/kernels/embedding.h"

#include "qkv/kernels/dispatch.h"
#include "qkv/kernels/weights.h"

namespace qkv::kernels {

void embedding_forward(EmbeddingTensors a) {
  const int64_t elements = a.ids.numel() * a.table.cols();
  count_elements(elements * (a.positions.defined() ? 2 : 1));
  count_bytes(static_cast<int64_t>(bytes_of(a.table.dtype(), elements)));
  backend_of("embedding_forward", a.table, a.scales, a.ids, a.positions, a.position, a.y)
      .embedding_forward({.table = weight_rows({a.table, a.scales}),
                          .ids = input<int32_t>(a.ids),
                          .factor = a.factor,
                          .positions = input(a.positions),
                          .position = input<int32_t>(a.position),
                          .tokens = a.ids.numel(),
                          .cols = a.table.cols(),
                          .dropout = a.dropout,
                          .y = address(a.y)});
}

void embedding_backward(const Tensor& dy, const Tensor& ids, float factor, const Dropout& dropout,
                        Tensor& table_gradient) {
  count_elements(3 * ids.numel() * table_gradient.cols());
  backend_of("embedding_backward", dy, ids, table_gradient)
      .embedding_backward(address(dy), address<int32_t>(ids), factor, ids.numel(), table_gradient.cols(),
                          table_gradient.rows(), dropout, address(table_gradient));
}

}  // namespace qkv::kernels
