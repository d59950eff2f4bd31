#pragma once
// CPU kernels; documented in qkv/kernels/backend.h.

#include "qkv/kernels/backend/loss.h"

namespace qkv::kernels::cpu {

void cross_entropy(const CrossEntropy& arguments);
void log_softmax(const float* logits, const float* bias, float* log_probabilities, int64_t rows,
                 int64_t cols);
void softmax(const float* x, float* y, int64_t rows, int64_t cols);

}  // namespace qkv::kernels::cpu
