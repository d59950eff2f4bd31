#pragma once
// Rows of a table by number, scaled and placed.

#include <cstdint>

#include "qkv/kernels/accumulate.h"
#include "qkv/kernels/dropout.h"
#include "qkv/kernels/weight_rows.h"

namespace qkv::kernels {

// y[t] = dropout(factor * table[ids[t]] + positions[position[t]]).
struct EmbeddingForward {
  WeightRows table{};                 // [vocabulary, cols]
  const int32_t* ids = nullptr;       // [tokens], each in [0, vocabulary)
  float factor = 1;                   // sqrt(d_model) in the paper
  const float* positions = nullptr;   // [max positions, cols], or null
  const int32_t* position = nullptr;  // [tokens], the row of `positions` of each token
  int64_t tokens = 0, cols = 0;
  Dropout dropout{};
  float* y = nullptr;  // [tokens, cols]
};

void embedding_forward(const EmbeddingForward& arguments);

// table_gradient[ids[t]] += factor * dropout(dy[t]), in the order of t for every row: the bits do not depend
// on threads. table_gradient [vocabulary, cols] must hold numbers already (zeros at first).
void embedding_backward(const float* dy, const int32_t* ids, float factor, int64_t tokens, int64_t cols,
                        int64_t vocabulary, const Dropout& dropout, float* table_gradient);

}  // namespace qkv::kernels
