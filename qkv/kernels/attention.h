#pragma once
// Scaled dot-product attention (Vaswani et al. 2017, equation 1) by head, over ragged batches.

#include <span>

#include "qkv/kernels/backend/attention.h"
#include "qkv/kernels/gradient_slot.h"
#include "qkv/tensor/ragged.h"

namespace qkv::kernels {

// What an attention computes beside its inputs: the one description that all kernels of attention get. Fields
// are those of AttentionShape, as tensors: f32 on one device, except `keep`.
struct AttentionRule {
  int64_t heads = 1;
  int64_t key_heads = 1;
  float scale = 1;
  float softcap = 0;
  bool causal = false;
  Alignment alignment = Alignment::last_key;
  int64_t window = 0;
  bool fixed_order = false;
  DType operands = DType::f32;
  // u8 and f32 [batch | 1, heads | 1, queries | 1, keys], broadcast. All masks and biases may be undefined.
  Tensor keep = {}, bias = {};
  Tensor alibi_slopes = {};   // [heads]
  Tensor relative_bias = {};  // [heads, 2 n - 1]: column n - 1 + j applies to a key j positions later
  Tensor sinks = {};          // [heads]
  Dropout dropout = {};
};

// The arguments of both directions.
struct AttentionTensors {
  // [query tokens, heads * d_k]; keys and values likewise. All may be columns of a wider matrix.
  Tensor query = {};
  Tensor key = {};
  Tensor value = {};
  Offsets query_offsets = {}, key_offsets = {};
  AttentionRule rule = {};
};

// Results; undefined ones are not computed. See AttentionCapture for all but the first two.
struct AttentionResultTensors {
  Tensor output = {};       // [query tokens, heads * d_v]
  Tensor log_sum_exp = {};  // [heads, query tokens]
  std::span<const int64_t> weight_offsets = {};
  Tensor weights = {}, scores = {}, top_weights = {}, top_keys = {};
};

void attention_forward(const AttentionTensors& arguments, AttentionResultTensors results);

// Gradients of the inputs, [tokens, heads * d] each; undefined ones are not computed. Those of the rule are
// accumulated.
struct AttentionGradientTensors {
  GradientSlot query = {}, key = {}, value = {};
  Tensor bias = {}, relative_bias = {}, sinks = {};
};

// output and log_sum_exp: from the forward pass.
void attention_backward(const AttentionTensors& arguments, const Tensor& output, const Tensor& log_sum_exp,
                        const Tensor& grad_output, AttentionGradientTensors gradients);

// A decoding step: one query per row, with keys and values of a cache (CachedAttention).
struct CachedAttentionTensors {
  Tensor query = {};  // [rows, heads * d_k]
  std::span<const CacheRow> rows = {};
  int64_t d_k = 0, d_v = 0;
  AttentionRule rule = {};   // without masks, bias, window and dropout
  DType dtype = DType::f32;  // of the cache
  Tensor output = {};        // [rows, heads * d_v]
  // Optional: the weights of row r, [heads, positions], from element weight_offsets[r] on.
  std::span<const int64_t> weight_offsets = {};
  Tensor weights = {};
};

void attention_cached(CachedAttentionTensors arguments);

// The device sums keys in groups of this size, counted from the start of a sequence. Keys that have left a
// window may be dropped from a call in whole groups without changing any bit.
int64_t attention_key_group(Device device);

}  // namespace qkv::kernels
