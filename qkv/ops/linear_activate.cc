#include "qkv/ops/linear_activate.h"

#include "qkv/kernels/pointwise.h"
#include "qkv/ops/activation.h"
#include "qkv/ops/linear_product.h"
#include "qkv/ops/profile.h"
#include "qkv/ops/require.h"

namespace qkv {

Variable linear_activate(const Variable& x, const LinearWeights& weights, kernels::Activation activation,
                         const kernels::Dropout& dropout, WeightLayout layout) {
  const LinearProduct product("linear_activate", x, weights, layout);
  require_dropout("linear_activate", dropout);
  // Other activations' derivatives need their input, which must be kept.
  if (product.records() && activation != kernels::Activation::relu)
    return activate(linear(x, weights, layout), activation, dropout);
  const ProfileScope profile("linear_activate");
  Tensor y = product.forward();
  kernels::activate(activation, y, dropout, y);
  if (!product.records()) return y;
  return Tape::record("linear_activate", y, product.inputs(),
                      [product, y, factor = dropout.scale()](const Tensor& dy) {
                        Tensor dx = dy;  // in place: dy is not read afterwards
                        kernels::relu_backward(y, dy, factor, dx);
                        product.backward(dx);
                      });
}

}  // namespace qkv
