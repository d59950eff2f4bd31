#pragma once
// Normalisation of rows, with the residual connection of a block in the same pass.

#include <cstdint>

#include "qkv/kernels/accumulate.h"
#include "qkv/kernels/dropout.h"

namespace qkv::kernels {

enum class NormKind {
  layer,  // y = (z - mean(z)) / sqrt(var(z) + epsilon) * gain + shift (Ba et al. 2016)
  rms,    // y = z / sqrt(mean(z^2) + epsilon) * gain (Zhang and Sennrich 2019)
};

// z = x + dropout(branch); y = norm(z), by row.
struct NormInput {
  const float* x = nullptr;       // [rows, cols]
  const float* branch = nullptr;  // [rows, cols], or null: z = x
  Dropout dropout{};              // of the branch
  NormKind kind = NormKind::layer;
  const float* gain = nullptr;   // [cols]; null: no normalisation, y is not written
  const float* shift = nullptr;  // [cols]; null with rms
  float epsilon = 1e-5f;
  int64_t rows = 0, cols = 0;
};

struct NormOutput {
  // [rows, cols]: z; may be x or branch. Null where not wanted (the backward pass then needs x as z: no
  // branch).
  float* sum = nullptr;
  float* y = nullptr;     // [rows, cols]; may be x or branch, and not `sum`
  float* mean = nullptr;  // [rows], 0 with rms; this and the next may be null
  float* rstd = nullptr;  // [rows]: 1 / sqrt(var + epsilon), of rms 1 / sqrt(mean(z^2) + epsilon)
};

void norm_forward(const NormInput& input, const NormOutput& output);

// dz [rows, cols] (+)= the gradient of y at z; branch_gradient (+)= dropout(the same), the branch's share of
// it in the same pass; gain_gradient and shift_gradient [cols] (+)= likewise. Sums over rows are made in an
// order that depends on the number of rows only.
struct NormBackward {
  NormKind kind = NormKind::layer;
  const float* z = nullptr;
  const float* gain = nullptr;
  const float* mean = nullptr;
  const float* rstd = nullptr;
  const float* dy = nullptr;
  int64_t rows = 0, cols = 0;
  float* dz = nullptr;  // [rows, cols]; null: not wanted. May be dy with Accumulate::no, as may the next
  Accumulate dz_accumulate = Accumulate::no;
  float* branch_gradient = nullptr;  // [rows, cols], not dz; null: not wanted
  Accumulate branch_accumulate = Accumulate::no;
  Dropout dropout = {};             // of the branch
  float* gain_gradient = nullptr;   // null: not wanted, with shift_gradient
  float* shift_gradient = nullptr;  // null with rms
  Accumulate parameter_accumulate = Accumulate::no;
};

void norm_backward(const NormBackward& arguments);

// dx (+)= dropout(dy), the branch's share of a residual sum's gradient. dx may be dy.
void dropout_backward(const float* dy, float* dx, int64_t rows, int64_t cols, const Dropout& dropout,
                      Accumulate accumulate);

}  // namespace qkv::kernels
