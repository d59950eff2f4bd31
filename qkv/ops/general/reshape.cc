#include "qkv/ops/general/reshape.h"

namespace qkv {

Variable reshape(const Variable& x, const Shape& shape) {
  const Tensor y = x.value().reshape(shape);
  if (!Tape::records({x})) return y;
  return Tape::record("reshape", y, {{x, false}},
                      [=](const Tensor& dy) { x.add_grad(dy.reshape(x.shape())); });
}

}  // namespace qkv
