#pragma once
// CPU kernels; documented in qkv/kernels/backend.h.

#include "qkv/kernels/backend/attention.h"

namespace qkv::kernels::cpu {

void attention_forward(const AttentionShape& shape, const AttentionInput& input,
                       const AttentionOutput& output);
void attention_backward(const AttentionShape& shape, const AttentionInput& input, const float* output,
                        int64_t output_stride, const float* log_sum_exp, const float* grad_output,
                        int64_t grad_output_stride, const AttentionGradients& gradients);
int64_t attention_key_group();
void attention_cached(const CachedAttention& attention);
void store_cached(const CacheStore& arguments);
void load_cached(const CacheLoad& arguments);

}  // namespace qkv::kernels::cpu
