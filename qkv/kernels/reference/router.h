#pragma once
// The kernels of backend/router.h.

#include "qkv/kernels/backend/router.h"

namespace qkv::kernels::reference {

void choose_experts(const ExpertChoice& arguments);
void expert_weights(const ExpertWeights& arguments);
void expert_weights_backward(const ExpertWeightsBackward& arguments);

}  // namespace qkv::kernels::reference
