#include "qkv/ops/general/pooling.h"

#include "qkv/kernels/segments.h"
#include "qkv/ops/general/contiguous.h"
#include "qkv/ops/profile.h"

namespace qkv {
namespace {

Variable checked(const char* operation, const Variable& input, const Offsets& offsets) {
  Variable x = contiguous_f32(operation, input);
  if (x.shape().rank() != 2 || x.shape()[0] != offsets.tokens()) {
    throw ShapeError(concat(operation, ": expected [", offsets.tokens(),
                            ", features], as the offsets end there, found ", x.shape()));
  }
  return x;
}

}  // namespace

Variable segment_mean(const Variable& input, const Offsets& offsets) {
  const ProfileScope profile("segment_mean");
  const Variable x = checked("segment_mean", input, offsets);
  Tensor y = Tensor::empty({offsets.sequences(), x.shape()[1]}, DType::f32, x.value().device());
  kernels::segment_mean(x.value(), offsets, y);
  if (!Tape::records({x})) return y;
  return Tape::record("segment_mean", y, {{x, false}}, [=](const Tensor& dy) {
    GradientSlot slot = x.gradient_slot();
    kernels::segment_mean_backward(dy, offsets, slot.tensor, slot.accumulate);
  });
}

Variable segment_max(const Variable& input, const Offsets& offsets) {
  const ProfileScope profile("segment_max");
  const Variable x = checked("segment_max", input, offsets);
  Tensor y = Tensor::empty({offsets.sequences(), x.shape()[1]}, DType::f32, x.value().device());
  Tensor rows = Tensor::empty(y.shape(), DType::i32, y.device());
  kernels::segment_max(x.value(), offsets, y, rows);
  if (!Tape::records({x})) return y;
  return Tape::record("segment_max", y, {{x, false}}, [=](const Tensor& dy) {
    GradientSlot slot = x.gradient_slot();
    if (slot.accumulate == Accumulate::no) slot.tensor.fill_zero();
    kernels::segment_max_backward(dy, offsets, rows, slot.tensor);
  });
}

}  // namespace qkv
