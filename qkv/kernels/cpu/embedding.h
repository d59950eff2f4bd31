#pragma once
// CPU kernels; documented in qkv/kernels/backend.h.

#include "qkv/kernels/backend/embedding.h"

namespace qkv::kernels::cpu {

void embedding_forward(const EmbeddingForward& arguments);
void embedding_backward(const float* dy, const int32_t* ids, float factor, int64_t tokens, int64_t cols,
                        int64_t vocabulary, const Dropout& dropout, float* table_gradient);

}  // namespace qkv::kernels::cpu
