#include "qkv/kernels/norm.h"

#include "qkv/kernels/dispatch.h"

namespace qkv::kernels {
void norm_forward(NormTensors a) {
  count_elements(a.x.numel() *
                 (1 + a.residual.defined() + a.sum.defined() + (a.weight.defined() && a.y.defined())));
  backend_of("norm_forward", a.x, a.residual, a.weight, a.bias, a.sum, a.y, a.mean, a.rstd)
      .norm_forward({.x = elements(a.x),
                     .residual = elements(a.residual),
                     .dropout = a.dropout,
                     .kind = a.kind,
                     .weight = input(a.weight),
                     .bias = input(a.bias),
                     .epsilon = a.epsilon,
                     .rows = a.x.rows(),
                     .cols = a.x.cols()},
                    {.sum = mutable_elements(a.sum),
                     .y = mutable_elements(a.y),
                     .mean = address(a.mean),
                     .rstd = address(a.rstd)});
}

void norm_backward(NormBackwardTensors a) {
  count_elements(a.dy.numel() * (2 + passes(a.dz) + passes(a.residual)));
  backend_of("norm_backward", a.dy, a.z, a.weight, a.mean, a.rstd, a.dz.tensor, a.residual.tensor,
             a.d_weight.tensor, a.d_bias.tensor)
      .norm_backward({.kind = a.kind,
                      .z = elements(a.z),
                      .weight = input(a.weight),
                      .mean = input(a.mean),
                      .rstd = input(a.rstd),
                      .dy = elements(a.dy),
                      .rows = a.dy.rows(),
                      .cols = a.dy.cols(),
                      .dz = mutable_elements(a.dz.tensor),
                      .dz_accumulate = a.dz.accumulate,
                      .residual_gradient = mutable_elements(a.residual.tensor),
                      .residual_accumulate = a.residual.accumulate,
                      .dropout = a.dropout,
                      .weight_gradient = address(a.d_weight.tensor),
                      .bias_gradient = address(a.d_bias.tensor),
                      .weight_accumulate = a.d_weight.accumulate,
                      .bias_accumulate = a.d_bias.accumulate});
}

void dropout_backward(const Tensor& dy, const Dropout& dropout, GradientSlot dx) {
  count_elements(dy.numel() * (1 + memory_passes(dx.accumulate)));
  backend_of("dropout_backward", dy, dx.tensor)
      .dropout_backward(elements(dy), mutable_elements(dx.tensor), dy.rows(), dy.cols(), dropout,
                        dx.accumulate);
}

}  // namespace qkv::kernels
