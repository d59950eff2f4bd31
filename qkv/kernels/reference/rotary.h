#pragma once
// Rotary position embedding (Su et al. 2021), by the equation in kernels/backend/rotary.h.

#include "qkv/kernels/backend/rotary.h"
#include "qkv/kernels/reference/doubles.h"

namespace qkv::kernels::reference {

// [rows, heads * d], ignoring `accumulate`.
Doubles rotated(const Rotary& arguments);

// The kernel of rotary.h.
void rotary(const Rotary& arguments);

}  // namespace qkv::kernels::reference
