#pragma once
// Attention in double precision, as its definition is written: what the kernels are held against.

#include <cstdint>
#include <vector>

#include "qkv/kernels/attention.h"

namespace qkv::kernels::reference {

struct AttentionForward {
  std::vector<double> output;       // [query tokens, heads * d_v]
  std::vector<double> log_sum_exp;  // [heads, query tokens]
  // Before dropout: [heads, queries, keys] of one sequence after the other.
  std::vector<double> weights;
};

AttentionForward attention_forward(const AttentionShape& shape, const AttentionInput& input);

struct AttentionBackward {
  std::vector<double> query;  // [query tokens, heads * d_k]
  std::vector<double> key;    // [key tokens, key heads * d_k]
  std::vector<double> value;  // [key tokens, key heads * d_v]
  // Of the scores, which is that of a bias of their full shape, laid out as the weights.
  std::vector<double> scores;
};

// grad_output [query tokens, heads * d_v] with grad_output_stride.
AttentionBackward attention_backward(const AttentionShape& shape, const AttentionInput& input,
                                     const float* grad_output, int64_t grad_output_stride);

}  // namespace qkv::kernels::reference
