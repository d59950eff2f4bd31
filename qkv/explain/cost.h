#pragma once
// An analytical cost model: parameters, multiply-accumulates and bytes of one forward run over all positions,
// from sizes alone. Activations are f32. kernels::counted_macs() counts the same multiply-accumulates during
// execution.

#include <cstdint>
#include <string>
#include <vector>

#include "qkv/models/config.h"
#include "qkv/tensor/dtype.h"

namespace qkv::explain {

struct Cost {
  int64_t parameters = 0;
  // Those of the experts that a token does not use.
  int64_t inactive_parameters = 0;
  // Multiply-accumulates of all matrix products, including the two of attention.
  int64_t macs = 0;
  // Floating-point operations outside the products. An addition, multiplication, division or function (exp,
  // erf, tanh, max with zero) counts as one: bias 1 per element, softmax 5 per weight, norm 7 per element,
  // residual 1.
  int64_t pointwise = 0;
  // Elements written by operations, which a training step keeps for the backward pass. Attention weights are
  // not stored and do not count; the log-sum-exp of each row does.
  int64_t activations = 0;
  // Parameters in weight matrices and tables, which may be bf16 or i8, and their number of rows.
  int64_t matrix_parameters = 0, matrix_rows = 0;

  int64_t active_parameters() const { return parameters - inactive_parameters; }
  int64_t flops() const { return 2 * macs + pointwise; }
  // With weight matrices of `dtype`; i8 has a scale of 4 bytes per row.
  int64_t weight_bytes(DType dtype = DType::f32) const {
    return 4 * (parameters - matrix_parameters + (dtype == DType::i8 ? matrix_rows : 0)) +
           static_cast<int64_t>(bytes_of(dtype, matrix_parameters));
  }
  int64_t activation_bytes() const { return 4 * activations; }

  friend bool operator==(const Cost&, const Cost&) = default;
};

// The functions below throw UsageError for a size below 1 and for counts of 2^60 or more.

Cost operator+(const Cost& a, const Cost& b);
// `count` layers of equal cost.
Cost operator*(int64_t count, const Cost& layer);

// One multi-head attention layer (nn::MultiheadAttention), including projections.
struct AttentionCostOptions {
  int64_t d_model = 512;
  int64_t heads = 8;
  int64_t key_heads = 0;     // of keys and values, a divisor of heads; 0: heads
  int64_t d_k = 0, d_v = 0;  // per head; 0: d_model / heads, which must then be an integer
  int64_t batch = 1;
  int64_t query_length = 1;
  int64_t key_length = 0;  // 0: self-attention, query_length
  bool causal = false;     // counts only allowed pairs, aligned to the last key
  int64_t window = 0;      // of causal attention, in keys; 0: all
  bool bias = true;
  bool output_projection = true;
  bool by_distance = false;  // relative positions or ALiBi: one more addition per score
};
Cost attention_cost(const AttentionCostOptions& options);

struct PartCost {
  std::string name;  // "q_proj", "encoder.self_attention"
  Cost cost;         // of a model's part over all its layers
};
Cost total(const std::vector<PartCost>& parts);

// The matrix products of that layer in execution order, with what belongs to each; attention_cost() is their
// total: "q_proj" (Q W^Q), "k_proj", "v_proj", "scores" (Q K^T and the softmax), "weighted_sum" (P V) and,
// with output_projection, "out_proj" (W^O).
std::vector<PartCost> attention_parts(const AttentionCostOptions& options);

// Number of (query, key) pairs that may attend, in one sequence. window: of causal attention; 0: all keys.
int64_t attended_pairs(int64_t query_length, int64_t key_length, bool causal, int64_t window = 0);

struct FeedForwardCostOptions {
  int64_t d_model = 512, d_ff = 2048;
  Activation activation = Activation::relu;
  int64_t tokens = 1;
  bool bias = true;
  bool gated = false;
  int64_t experts = 0, experts_per_token = 2;  // nn::ExpertOptions, without shared ones; 0: one feed-forward
};
Cost feed_forward_cost(const FeedForwardCostOptions& options);

// y = x W^T + b.
struct LinearCostOptions {
  int64_t inputs = 1, outputs = 1;
  int64_t tokens = 1;
  bool bias = true;
};
Cost linear_cost(const LinearCostOptions& options);

// A norm over rows of width d_model.
Cost norm_cost(int64_t d_model, int64_t tokens, nn::NormKind kind = nn::NormKind::layer);
// The frame of a sublayer: its norm and the residual addition.
Cost residual_cost(int64_t d_model, int64_t tokens, nn::NormKind kind = nn::NormKind::layer);

// The input sizes of a run: sequences of equal lengths.
struct Workload {
  int64_t batch = 1;
  int64_t source_length = 32;
  int64_t target_length = 32;
};

// The parts of an encoder-decoder in execution order. A table shared by several parts is counted once, at its
// first use. Throws UsageError for an invalid configuration.
std::vector<PartCost> transformer_cost(const models::TransformerConfig& config, const Workload& workload);

}  // namespace qkv::explain
