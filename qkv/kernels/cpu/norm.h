#pragma once
// CPU kernels; documented in qkv/kernels/backend.h.

#include "qkv/kernels/backend/norm.h"

namespace qkv::kernels::cpu {

void norm_forward(const NormInput& input, const NormOutput& output);
void norm_backward(const NormBackward& arguments);
void dropout_backward(const float* dy, float* dx, int64_t rows, int64_t cols, const Dropout& dropout,
                      Accumulate accumulate);

}  // namespace qkv::kernels::cpu
