#pragma once
// Embedding: table look-up.

#include <cstdint>

#include "qkv/kernels/backend/embedding.h"
#include "qkv/kernels/reference/doubles.h"

namespace qkv::kernels::reference {

Doubles embedded(const EmbeddingForward& arguments);  // [tokens, cols]

// The kernels of embedding.h.
void embedding_forward(const EmbeddingForward& arguments);
void embedding_backward(const float* dy, const int32_t* ids, float factor, int64_t tokens, int64_t cols,
                        int64_t vocabulary, const Dropout& dropout, float* table_gradient);

}  // namespace qkv::kernels::reference
