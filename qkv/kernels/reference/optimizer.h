#pragma once
// The update rules in double precision, element by element, with which tests compare the fast ones.
// Arguments: qkv/kernels/backend.h.

#include "qkv/kernels/backend/elements.h"
#include "qkv/kernels/backend/optimizer.h"

namespace qkv::kernels::reference {

void adam(const AdamRule& rule, const OptimizerPass& pass, std::span<const ParameterUpdate> updates);
void sgd(const SgdRule& rule, const OptimizerPass& pass, std::span<const ParameterUpdate> updates);
void rmsprop(const RmspropRule& rule, const OptimizerPass& pass, std::span<const ParameterUpdate> updates);
void adagrad(const AdagradRule& rule, const OptimizerPass& pass, std::span<const ParameterUpdate> updates);
void adafactor(const AdafactorRule& rule, const OptimizerPass& pass,
               std::span<const ParameterUpdate> updates);
void sum_of_squares(const float* x, int64_t count, double* sum);
void all_finite(Elements x, int64_t count, int32_t* finite);

}  // namespace qkv::kernels::reference
