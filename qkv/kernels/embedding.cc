#include "qkv/kernels/embedding.h"

#include "qkv/kernels/dispatch.h"
#include "qkv/kernels/weights.h"

namespace qkv::kernels {

void embedding_forward(EmbeddingTensors a) {
  backend_of("embedding_forward", a.table, a.scales, a.ids, a.positions, a.position, a.y)
      .embedding_forward({.table = weight_rows({a.table, a.scales}),
                          .ids = address<int32_t>(a.ids),
                          .factor = a.factor,
                          .positions = address(a.positions),
                          .position = address<int32_t>(a.position),
                          .tokens = a.ids.numel(),
                          .cols = a.table.cols(),
                          .dropout = a.dropout,
                          .y = address(a.y)});
}

void embedding_backward(const Tensor& dy, const Tensor& ids, float factor, const Dropout& dropout,
                        Tensor& table_gradient) {
  backend_of("embedding_backward", dy, ids, table_gradient)
      .embedding_backward(address(dy), address<int32_t>(ids), factor, ids.numel(), table_gradient.cols(),
                          table_gradient.rows(), dropout, address(table_gradient));
}

}  // namespace qkv::kernels
