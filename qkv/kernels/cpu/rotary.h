#pragma once
// CPU kernels; documented in qkv/kernels/backend.h.

#include "qkv/kernels/backend/rotary.h"

namespace qkv::kernels::cpu {

void rotary(const Rotary& arguments);

}  // namespace qkv::kernels::cpu
