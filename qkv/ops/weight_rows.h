#pragma once
// What a kernel needs to know of a weight in any form.

#include "qkv/kernels/weight_rows.h"
#include "qkv/ops/variable.h"

namespace qkv {

// `value` is contiguous, and `scales` is as Variable::scales().
kernels::WeightRows weight_rows(const Tensor& value, const Tensor& scales);
inline kernels::WeightRows weight_rows(const Variable& weight) {
  return weight_rows(weight.value(), weight.scales());
}

}  // namespace qkv
