#include "qkv/ops/general/contiguous.h"

namespace qkv {

Variable contiguous_f32(const char* operation, const Variable& x) {
  if (x.value().dtype() != DType::f32) {
    throw ShapeError(concat(operation, ": expected f32, found ", name_of(x.value().dtype()), " ", x.shape()));
  }
  if (!x.value().defined())
    throw UsageError(concat(operation, ": expected values, found a parameter without any"));
  if (x.value().contiguous()) return x;
  const Tensor y = x.value().clone();
  if (!Tape::records({x})) return y;
  return Tape::record("contiguous", y, [=](const Tensor& dy) { x.add_grad(dy); });
}

}  // namespace qkv
