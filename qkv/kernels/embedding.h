#pragma once
// Embedding: table look-up, scaled, plus positions.

#include "qkv/kernels/backend/embedding.h"
#include "qkv/tensor/tensor.h"

namespace qkv::kernels {

// y[t] = dropout(factor * table[ids[t]] + positions[position[t]]), all on one device.
struct EmbeddingTensors {
  Tensor table = {};      // [vocabulary, cols], f32, bf16, f16 or i8
  Tensor scales = {};     // [vocabulary], for i8: the step size of each row
  Tensor ids = {};        // i32 [tokens], each in [0, vocabulary)
  float factor = 1;       // sqrt(d_model) in the paper
  Tensor positions = {};  // [max positions, cols]; undefined: none
  Tensor position = {};   // i32 [tokens]: each token's row of `positions`
  Dropout dropout = {};
  Tensor y = {};  // [tokens, cols]
};

void embedding_forward(EmbeddingTensors arguments);

// table_gradient[ids[t]] += factor * dropout(dy[t]), for each row in the order of t. table_gradient must be
// initialised (to zeros at first).
void embedding_backward(const Tensor& dy, const Tensor& ids, float factor, const Dropout& dropout,
                        Tensor& table_gradient);

}  // namespace qkv::kernels
