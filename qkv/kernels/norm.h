#pragma once
// Norms of rows, with a block's residual connection in the same pass.

#include "qkv/kernels/backend/norm.h"
#include "qkv/kernels/gradient_slot.h"

namespace qkv::kernels {

// z = x + dropout(residual); y = norm(z), by row. All contiguous, on one device; mean, rstd, weights and
// their gradients are f32, the others f32 or bf16 (backend/elements.h).
struct NormTensors {
  Tensor x = {};         // [rows, cols]
  Tensor residual = {};  // [rows, cols]; undefined: z = x
  Dropout dropout{};
  NormKind kind = NormKind::layer;
  Tensor weight = {};  // [cols]; undefined: no normalisation, y is not written
  Tensor bias = {};    // [cols]; undefined with rms
  float epsilon = 1e-5f;
  // Optional results: z [rows, cols], which may be x or residual; y [rows, cols], which may be x or residual,
  // but not sum; mean and rstd [rows].
  Tensor sum = {}, y = {}, mean = {}, rstd = {};
};

void norm_forward(NormTensors arguments);

// The inputs and results of norm_forward(), and the wanted gradients for dy [rows, cols].
struct NormBackwardTensors {
  NormKind kind = NormKind::layer;
  Dropout dropout{};
  Tensor z = {}, weight = {}, mean = {}, rstd = {};
  Tensor dy = {};
  GradientSlot dz = {}, residual = {};  // [rows, cols], different memory; either may be dy if it is written
  GradientSlot d_weight = {}, d_bias = {};
};

void norm_backward(NormBackwardTensors arguments);

// dx (+)= dropout(dy), the residual's part of a sum's gradient; [rows, cols]. dx may be dy.
void dropout_backward(const Tensor& dy, const Dropout& dropout, GradientSlot dx);

}  // namespace qkv::kernels
