#pragma once
// Rotary positions (Su et al. 2021), as the equation in kernels/rotary.h.

#include "qkv/kernels/backend/rotary.h"
#include "qkv/kernels/reference/doubles.h"

namespace qkv::kernels::reference {

// [rows, heads * d], whatever `accumulate` says.
Doubles rotated(const Rotary& arguments);

// The kernel of rotary.h.
void rotary(const Rotary& arguments);

}  // namespace qkv::kernels::reference
