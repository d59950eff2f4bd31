#include "qkv/ops/embedding.h"

#include "qkv/kernels/embedding.h"
#include "qkv/ops/profile.h"
#include "qkv/ops/quantize.h"
#include "qkv/ops/require.h"

namespace qkv {

Variable embedding(const Weight& table, const Tensor& ids_of_any_width, const Variable& positions,
                   const EmbeddingOptions& options) {
  const ProfileScope profile("embedding");
  if (!table.defined()) throw ShapeError("embedding: the table is undefined");
  require_weight("embedding", table.values(), table.scales());
  const Tensor ids = as_ids("embedding", "ids", ids_of_any_width);
  const int64_t vocabulary = table.values().rows(), cols = table.values().cols(), tokens = ids.numel();
  const Tensor host_ids = to_host(ids);
  for (const int32_t id : host_ids.values<int32_t>()) {
    if (id < 0 || id >= vocabulary) {
      throw DataError(concat("embedding: token id ", id, " is outside the vocabulary of ", vocabulary));
    }
  }
  Tensor position;
  if (positions.defined()) {
    require_matrix("embedding", positions);
    if (positions.value().cols() != cols || !options.position.defined() ||
        options.position.numel() != tokens) {
      throw ShapeError(concat("embedding: ", tokens, " ids of a table ", table.shape(),
                              " do not fit positions ", positions.shape(), " and position ",
                              options.position.shape()));
    }
    position = as_ids("embedding", "positions", options.position);
    const Tensor host_position = to_host(position);
    for (const int32_t place : host_position.values<int32_t>()) {
      if (place < 0 || place >= positions.value().rows()) {
        throw DataError(concat("embedding: position ", place, " is outside the ", positions.value().rows(),
                               " positions"));
      }
    }
  }
  require_dropout("embedding", options.dropout);
  const bool records = Tape::records({table.variable(), positions});
  if (records && table.requires_grad() && table.dtype() != DType::f32) {
    throw UsageError(concat("embedding: only an f32 table can be trained, found ", name_of(table.dtype()),
                            " ", table.shape(), "; freeze it, or load it as f32"));
  }
  const Device device = table.values().device();
  const Tensor rows = from_host(ids, device);
  position = from_host(position, device);
  Tensor y = Tensor::empty({tokens, cols}, DType::f32, device);
  kernels::embedding_forward({.table = table.values(),
                              .scales = table.scales(),
                              .ids = rows,
                              .factor = options.factor,
                              .positions = positions.defined() ? positions.value() : Tensor(),
                              .position = position,
                              .dropout = options.dropout,
                              .y = y});
  if (!records) return y;
  return Tape::record("embedding", y, {{table.variable(), false}, {positions, false}},
                      [table, positions, rows, position, factor = options.factor,
                       dropout = options.dropout](const Tensor& dy) {
                        const auto scatter = [&](const Variable& to, const Tensor& ids_of_rows,
                                                 float factor_of_rows) {
                          GradientSlot slot = to.gradient_slot();
                          if (slot.accumulate == Accumulate::no) slot.tensor.fill_zero();
                          kernels::embedding_backward(dy, ids_of_rows, factor_of_rows, dropout, slot.tensor);
                        };
                        if (table.requires_grad()) scatter(table.variable(), rows, factor);
                        if (positions.requires_grad()) scatter(positions, position, 1.0f);
                      });
}

}  // namespace qkv
