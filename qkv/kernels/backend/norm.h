#pragma once
// Norms of rows, with a block's residual connection in the same pass.

#include <cstdint>

#include "qkv/kernels/backend/elements.h"
#include "qkv/kernels/dropout.h"
#include "qkv/kernels/kinds.h"

namespace qkv::kernels {

// z = x + dropout(residual); y = norm(z), by row.
struct NormInput {
  Elements x = {};         // [rows, cols]
  Elements residual = {};  // [rows, cols], or null: z = x
  Dropout dropout{};       // of the residual
  NormKind kind = NormKind::layer;
  const float* weight = nullptr;  // [cols]; null: no normalisation, y is not written
  const float* bias = nullptr;    // [cols]; null with rms
  float epsilon = 1e-5f;
  int64_t rows = 0, cols = 0;
};

struct NormOutput {
  // [rows, cols]: z; may be x or residual. Null: not wanted (the backward pass then needs x = z, that is no
  // residual).
  MutableElements sum = {};
  MutableElements y = {};  // [rows, cols]; may be x or residual, but not `sum`
  float* mean = nullptr;   // [rows], 0 for rms; mean and rstd may be null
  float* rstd = nullptr;   // [rows]: 1 / sqrt(var + epsilon), for rms 1 / sqrt(mean(z^2) + epsilon)
};

// dz [rows, cols] (+)= the gradient of y with respect to z; residual_gradient (+)= dropout(the same), in the
// same pass; weight_gradient and bias_gradient [cols] (+)= likewise. Each is optional. The order of sums over
// rows depends on the number of rows only.
struct NormBackward {
  NormKind kind = NormKind::layer;
  Elements z = {};
  const float* weight = nullptr;
  const float* mean = nullptr;
  const float* rstd = nullptr;
  Elements dy = {};
  int64_t rows = 0, cols = 0;
  // [rows, cols]; null: not wanted. May be dy with Accumulate::no, and so may the next.
  MutableElements dz = {};
  Accumulate dz_accumulate = Accumulate::no;
  MutableElements residual_gradient = {};  // [rows, cols], not dz; null: not wanted
  Accumulate residual_accumulate = Accumulate::no;
  Dropout dropout = {};              // of the residual
  float* weight_gradient = nullptr;  // [cols]; null: not wanted
  float* bias_gradient = nullptr;    // [cols]; null: not wanted, or rms
  Accumulate weight_accumulate = Accumulate::no, bias_accumulate = Accumulate::no;
};

}  // namespace qkv::kernels
