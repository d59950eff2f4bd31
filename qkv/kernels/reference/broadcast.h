#pragma once
// Arithmetic with broadcasting, and sums along an axis.

#include "qkv/kernels/backend/broadcast.h"

namespace qkv::kernels::reference {

void binary(const Broadcast& arguments);
void sum_axis(const AxisSum& arguments);

}  // namespace qkv::kernels::reference
