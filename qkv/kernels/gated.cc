#include "qkv/kernels/gated.h"

#include "qkv/kernels/dispatch.h"

namespace qkv::kernels {
namespace {

Gated pointers(const GatedTensors& a) {
  return {.activation = a.activation,
          .gate = elements(a.gate),
          .x = elements(a.x),
          .gate_stride = a.gate.row_stride(),
          .x_stride = a.x.row_stride(),
          .rows = a.x.rows(),
          .cols = a.x.cols(),
          .dropout = a.dropout};
}

GradientRows rows_of(GradientSlot& slot) {
  return {mutable_elements(slot.tensor), slot.tensor.row_stride(), slot.accumulate};
}

}  // namespace

void gated(const GatedTensors& a, Tensor& y) {
  count_elements(3 * a.x.numel());
  backend_of("gated", a.gate, a.x, y).gated(pointers(a), mutable_elements(y));
}

void gated_backward(const GatedTensors& a, const Tensor& dy, GradientSlot d_gate, GradientSlot d_x) {
  count_elements((3 + passes(d_gate) + passes(d_x)) * a.x.numel());
  backend_of("gated_backward", a.gate, a.x, dy, d_gate.tensor, d_x.tensor)
      .gated_backward(pointers(a), elements(dy), rows_of(d_gate), rows_of(d_x));
}

}  // namespace qkv::kernels
