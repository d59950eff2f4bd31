#include "qkv/ops/general/contiguous.h"

#include "qkv/ops/require.h"

namespace qkv {

Variable contiguous(const char* operation, const Variable& x) {
  if (!x.defined() || !x.value().defined()) {
    throw UsageError(concat(operation, ": expected values, found ",
                            x.defined() ? "a variable without any" : "an undefined variable"));
  }
  require_activation(operation, x.value());
  if (x.value().contiguous()) return x;
  const Tensor y = x.value().clone();
  if (!Tape::records({x})) return y;
  return Tape::record("contiguous", y, {{x, false}}, [=](const Tensor& dy) { x.add_grad(dy); });
}

Variable contiguous_f32(const char* operation, const Variable& x) {
  Variable y = contiguous(operation, x);
  require_f32(operation, y.value());
  return y;
}

}  // namespace qkv
