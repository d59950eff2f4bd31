#pragma once
// Attention by its definition: a whole row of scores, its softmax, its weighted sum.

#include <cstdint>

#include "qkv/kernels/backend/attention.h"
#include "qkv/kernels/reference/doubles.h"

namespace qkv::kernels::reference {

struct AttentionForward {
  Doubles output;       // [query tokens, heads * d_v]
  Doubles log_sum_exp;  // [heads, query tokens]
  Doubles weights;      // before dropout: [heads, queries, keys] for one sequence after the other
};
AttentionForward attention_forward(const AttentionShape& shape, const AttentionInput& input);

struct AttentionBackward {
  Doubles query;   // [query tokens, heads * d_k]
  Doubles key;     // [key tokens, key heads * d_k]
  Doubles value;   // [key tokens, key heads * d_v]
  Doubles sinks;   // [heads]
  Doubles scores;  // in the layout of the weights: the gradient of a bias of full shape
};
// grad_output: [query tokens, heads * d_v] with grad_output_stride.
AttentionBackward attention_backward(const AttentionShape& shape, const AttentionInput& input,
                                     Elements grad_output, int64_t grad_output_stride);

// The kernels of attention.h. The backward pass recomputes the weights and ignores output and log_sum_exp.
void attention_forward(const AttentionShape& shape, const AttentionInput& input,
                       const AttentionOutput& output);
void attention_backward(const AttentionShape& shape, const AttentionInput& input, Elements grad_output,
                        int64_t grad_output_stride, const AttentionGradients& gradients);
void attention_cached(const CachedAttention& attention);
void store_cached(const CacheStore& arguments);
void load_cached(const CacheLoad& arguments);
void copy_cached(const CacheCopy& arguments);

}  // namespace qkv::kernels::reference
