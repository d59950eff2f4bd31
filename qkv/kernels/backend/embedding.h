#pragma once
// Embedding: table look-up, scaled, plus positions.

#include <cstdint>

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

}  // namespace qkv::kernels
