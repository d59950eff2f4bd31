#include "qkv/ops/activation.h"

#include "qkv/kernels/pointwise.h"
#include "qkv/ops/profile.h"
#include "qkv/ops/require.h"

namespace qkv {

Variable activate(const Variable& x, Activation activation, const Dropout& dropout) {
  const ProfileScope profile("activate");
  require_matrix("activate", x);
  require_dropout("activate", dropout);
  Tensor y = empty_like(x.value());
  kernels::activate(activation, x.value(), dropout, y);
  if (!Tape::records({x})) return y;
  return Tape::record("activate", y, {x}, [=](const Tensor& dy) {
    kernels::activate_backward(activation, x.value(), dy, dropout, x.gradient_slot());
  });
}

}  // namespace qkv
