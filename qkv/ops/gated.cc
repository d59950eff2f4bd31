#include "qkv/ops/gated.h"

#include "qkv/kernels/gated.h"
#include "qkv/ops/profile.h"
#include "qkv/ops/require.h"

namespace qkv {

Variable gated(const Variable& gate, const Variable& x, Activation activation, const Dropout& dropout) {
  const ProfileScope profile("gated");
  require_rows("gated", gate);
  require_rows("gated", x);
  if (gate.shape() != x.shape()) {
    throw ShapeError(concat("gated: shapes differ: ", gate.shape(), " and ", x.shape()));
  }
  require_same_dtype("gated", gate, x);
  require_dropout("gated", dropout);
  const kernels::GatedTensors arguments{
      .activation = activation, .gate = gate.value(), .x = x.value(), .dropout = dropout};
  Tensor y = empty_like(x.value());
  kernels::gated(arguments, y);
  if (!Tape::records({gate, x})) return y;
  return Tape::record("gated", y, {gate, {x, gate.requires_grad()}}, [=](const Tensor& dy) {
    kernels::gated_backward(arguments, dy, gradient_slot_of(gate), gradient_slot_of(x));
  });
}

}  // namespace qkv
