#pragma once
// Softmax over a vocabulary, and cross-entropy with label smoothing.

#include <cstdint>

#include "qkv/kernels/backend/loss.h"
#include "qkv/kernels/reference/doubles.h"

namespace qkv::kernels::reference {

// log softmax(x + bias) by row, [rows, cols]; bias may be null.
Doubles log_softmax(const float* x, const float* bias, int64_t rows, int64_t cols);

struct Losses {
  Doubles loss, nll;  // [rows]
  Doubles gradient;   // [rows, cols]
};
Losses losses(const CrossEntropy& arguments);

// The kernels of loss.h.
void cross_entropy(const CrossEntropy& arguments);
void log_softmax(const float* logits, const float* bias, float* log_probabilities, int64_t rows,
                 int64_t cols);
void best_tokens(const BestTokens& arguments);
void softmax(const float* x, float* y, int64_t rows, int64_t cols);

}  // namespace qkv::kernels::reference
