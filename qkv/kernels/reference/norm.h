#pragma once
// Layer and RMS normalisation of rows, with the residual connection before it.

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
// Of z alone: mean and rstd are computed again, with `epsilon`, and those of the arguments are not read.
NormGradients norm_backward(const NormBackward& arguments, float epsilon);

// The kernels of norm.h.
void norm_forward(const NormInput& input, const NormOutput& output);
void norm_backward(const NormBackward& arguments);
void dropout_backward(const float* dy, float* dx, int64_t rows, int64_t cols, const Dropout& dropout,
                      Accumulate accumulate);

}  // namespace qkv::kernels::reference
