#include "qkv/ops/general/drop_path.h"

#include <algorithm>

#include "qkv/kernels/broadcast.h"
#include "qkv/ops/profile.h"
#include "qkv/ops/require.h"

namespace qkv {

Variable drop_path(const Variable& x, const Offsets& offsets, const Dropout& dropout) {
  const ProfileScope profile("drop_path");
  require_matrix("drop_path", x);
  require_dropout("drop_path", dropout);
  const int64_t tokens = x.value().rows();
  if (offsets.tokens() != tokens) {
    throw ShapeError(
        concat("drop_path: expected offsets of the ", tokens, " rows of x, found ", offsets.tokens()));
  }
  if (!dropout.active()) return x;

  // One factor per row, repeated over the features.
  Tensor factors = Tensor::empty({tokens, 1});
  for (int64_t i = 0; i < offsets.sequences(); ++i) {
    const float factor = dropout.keeps(static_cast<uint32_t>(i), 0) ? dropout.scale() : 0.0f;
    std::fill(factors.data() + offsets.begin(i), factors.data() + offsets.end(i), factor);
  }
  factors = from_host(factors, x.value().device());
  Tensor y = empty_like(x.value());
  kernels::binary(kernels::BinaryOp::multiply, x.value(), factors, y, Accumulate::no);
  if (!Tape::records({x})) return y;
  return Tape::record("drop_path", y, {{x, false}}, [=](const Tensor& dy) {
    GradientSlot slot = x.gradient_slot();
    kernels::binary(kernels::BinaryOp::multiply, dy, factors, slot.tensor, slot.accumulate);
  });
}

}  // namespace qkv
