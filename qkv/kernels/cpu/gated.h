#pragma once
// CPU kernels; documented in qkv/kernels/backend.h.

#include "qkv/kernels/backend/gated.h"

namespace qkv::kernels::cpu {

void gated(const Gated& arguments, float* y);
void gated_backward(const Gated& arguments, const float* dy, const GradientRows& d_gate,
                    const GradientRows& d_x);

}  // namespace qkv::kernels::cpu
