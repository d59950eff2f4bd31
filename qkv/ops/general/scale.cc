#include "qkv/ops/general/scale.h"

#include "qkv/kernels/pointwise.h"
#include "qkv/ops/general/contiguous.h"
#include "qkv/ops/profile.h"

namespace qkv {

Variable scaled(const Variable& input, float factor) {
  const ProfileScope profile("scaled");
  const Variable x = contiguous("scaled", input);
  Tensor y = empty_like(x.value());
  kernels::scale(x.value(), factor, y, Accumulate::no);
  if (!Tape::records({x})) return y;
  return Tape::record("scaled", y, {{x, false}}, [=](const Tensor& dy) {
    GradientSlot slot = x.gradient_slot();
    kernels::scale(dy, factor, slot.tensor, slot.accumulate);
  });
}

}  // namespace qkv
