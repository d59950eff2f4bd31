#pragma once
// Layer and RMS norms of rows, with the preceding residual connection.

#include "qkv/kernels/backend/norm.h"
#include "qkv/kernels/reference/doubles.h"

namespace qkv::kernels::reference {

struct Norm {
  Doubles sum, y;      // [rows, cols]
  Doubles mean, rstd;  // [rows]
};
Norm norm_forward(const NormInput& input);

struct NormGradients {
  Doubles dz, residual;  // [rows, cols]
  Doubles weight, bias;  // [cols]
};
// From z alone: mean and rstd are recomputed with `epsilon`; those of the arguments are ignored.
NormGradients norm_backward(const NormBackward& arguments, float epsilon);

// The kernels of norm.h.
void norm_forward(const NormInput& input, const NormOutput& output);
void norm_backward(const NormBackward& arguments);
void dropout_backward(Elements dy, MutableElements dx, int64_t rows, int64_t cols, const Dropout& dropout,
                      Accumulate accumulate);

}  // namespace qkv::kernels::reference
