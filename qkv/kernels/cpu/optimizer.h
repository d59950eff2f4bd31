#pragma once
// CPU kernels; documented in qkv/kernels/backend.h.

#include "qkv/kernels/backend/optimizer.h"

namespace qkv::kernels::cpu {

void adam(const AdamRule& rule, const OptimizerPass& pass, std::span<const ParameterUpdate> updates);
void sgd(const SgdRule& rule, const OptimizerPass& pass, std::span<const ParameterUpdate> updates);
void rmsprop(const RmspropRule& rule, const OptimizerPass& pass, std::span<const ParameterUpdate> updates);
void adagrad(const AdagradRule& rule, const OptimizerPass& pass, std::span<const ParameterUpdate> updates);
void adafactor(const AdafactorRule& rule, const OptimizerPass& pass,
               std::span<const ParameterUpdate> updates);

double sum_of_squares(const float* x, int64_t count);
bool all_finite(const float* x, int64_t count);

}  // namespace qkv::kernels::cpu
