#pragma once
// Multi-head attention (Vaswani et al. 2017, section 3.2.2).

#include <functional>
#include <optional>

#include "qkv/nn/cache.h"
#include "qkv/nn/forward_context.h"
#include "qkv/nn/parameter.h"
#include "qkv/nn/positions.h"
#include "qkv/ops/attention.h"
#include "qkv/ops/linear.h"

namespace qkv::nn {

struct MultiheadAttentionOptions {
  int64_t d_model = 0;
  int64_t heads = 1;
  int64_t key_heads = 0;       // of keys and values, a divisor of heads; 0: as many
  int64_t d_k = 0;             // per head; 0: d_model / heads
  int64_t d_v = 0;             // per head; 0: d_model / heads
  int64_t key_features = 0;    // of the rows that keys are made from; 0: d_model
  int64_t value_features = 0;  // of the rows that values are made from; 0: d_model
  bool bias = true;
  // Of self-attention: rotary ones turn queries and keys, ALiBi lowers scores. Relative ones come with each
  // run, as a stack of layers has them in common (RelativePositions).
  PositionOptions positions = {};
  std::optional<float> scale = {};  // of the scores; nothing: 1 / sqrt(d_k)
  float softcap = 0;                // of the scaled scores, as in AttentionOptions; 0: none
  bool output_projection = true;    // without it the output is [tokens, heads * d_v]
  // Of causal self-attention: the positions that a query sees, its own and those before it; 0: all
  // (Beltagy et al. 2020, section 3.1).
  int64_t window = 0;
  float dropout = 0;  // of the weights
};

// The options with the sizes that follow from others filled in. Throws UsageError where heads do not divide
// d_model and d_k or d_v is to follow from them, where key_heads do not divide heads, and where positions are
// rotary and d_k is odd.
MultiheadAttentionOptions completed(MultiheadAttentionOptions options);

// Which keys a query attends to (all that is given must allow it), and what is added to their scores.
struct AttentionMask {
  bool causal = false;
  Alignment alignment = Alignment::last_key;  // as in AttentionOptions
  Tensor keep = {};                           // as in AttentionOptions
  Variable bias = {};                         // likewise
  Variable relative_bias = {};                // likewise, [heads, 2 n - 1]
};

// MultiHead(Q, K, V) = Concat(head_1, ..., head_h) W^O, head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V).
class MultiheadAttention {
 public:
  // Throws what completed() throws.
  explicit MultiheadAttention(const MultiheadAttentionOptions& options);

  // Self-attention: x [tokens, d_model] -> [tokens, d_model].
  Variable self(const Variable& x, const Offsets& offsets, const AttentionMask& mask,
                ForwardContext& context) const;
  // Queries from x, keys and values from other rows: x [tokens, d_model], keys [memory tokens, key_features],
  // values [memory tokens, value_features]. Sequence i of one attends to sequence i of the other.
  Variable cross(const Variable& x, const Offsets& offsets, const Variable& keys, const Variable& values,
                 const Offsets& memory_offsets, const AttentionMask& mask, ForwardContext& context) const;

  // Reading: the next positions of each row of a cache, x [tokens, d_model] -> the same; row i has those from
  // offsets.begin(i) on. Causal. A position's bits do not depend on how many are read at once. relative_bias:
  // as self_step has it.
  Tensor self_read(const Tensor& x, const Offsets& offsets, KeyValueCache& cache,
                   const Tensor& relative_bias = {}) const;
  // One more position for each row of a cache: x [rows, d_model] -> [rows, d_model]. relative_bias: as a mask
  // has it, with the n of the longest row or more.
  Tensor self_step(const Tensor& x, KeyValueCache& cache, const Tensor& relative_bias = {}) const;
  // Keys and values of encoded sentences: [memory tokens, d_model]; kept as f32 or bf16.
  MemoryKeyValues encode_memory(const Tensor& memory, const Offsets& offsets, DType dtype = DType::f32) const;
  // x [rows, d_model], the rows of sentence i being hypothesis_offsets[i] to hypothesis_offsets[i + 1], all
  // of which attend to its memory. weights, if given: of each row, what it attended to, as the mean of the
  // heads.
  Tensor cross_step(const Tensor& x, const Offsets& hypothesis_offsets, const MemoryKeyValues& memory,
                    std::vector<std::vector<float>>* weights = nullptr) const;

  void visit(const ParameterVisitor& visitor) const;
  const MultiheadAttentionOptions& options() const { return options_; }  // with the sizes filled in

 private:
  struct Heads {
    Variable query, key, value;
  };
  // Of the same rows; positions i32 [tokens], read where they are rotary.
  Heads project(const Variable& x, const std::function<Tensor()>& positions, WeightLayout layout) const;
  // alibi_slopes: of self-attention.
  Variable attend(const Variable& query, const Variable& key, const Variable& value,
                  const Offsets& query_offsets, const Offsets& key_offsets, const AttentionMask& mask,
                  ForwardContext& context, const Tensor& alibi_slopes = {}) const;
  Variable project_output(const Variable& heads, WeightLayout layout) const;

  MultiheadAttentionOptions options_;
  Tensor alibi_slopes_;  // undefined where positions are others
  Parameter q_weight_, k_weight_, v_weight_, out_weight_;
  Parameter q_bias_, k_bias_, v_bias_, out_bias_;
  // The same weights, grouped as they are used: one product for all that is made from the same rows.
  LinearWeights qkv_, q_, kv_, k_, v_, out_;
};

}  // namespace qkv::nn
