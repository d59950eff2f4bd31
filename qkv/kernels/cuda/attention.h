#pragma once
// What the kernels of attention have in common: rows, masks, biases.

#include "qkv/kernels/cuda/dropout.h"
#include "qkv/kernels/cuda/elements.h"
#include "qkv/kernels/cuda/grid.h"
#include "qkv/kernels/cuda/kernels.h"
#include "qkv/kernels/cuda/memory.h"

namespace qkv::kernels::cuda {

// A query row of one head.
struct Row {
  int64_t sequence, head, key_head, query;  // query within the sequence
  int64_t query_row, first_key_row;         // in the batch
  int64_t queries, keys;
};

// The sequence of a row of the batch.
QKV_DEVICE inline int64_t sequence_of(const int32_t* offsets, int64_t sequences, int64_t row) {
  int64_t low = 0, high = sequences;
  while (high - low > 1) {
    const int64_t middle = (low + high) / 2;
    (offsets[middle] <= row ? low : high) = middle;
  }
  return low;
}

QKV_DEVICE inline Row row_of(const AttentionShape& s, int64_t sequence, int64_t head, int64_t query_row) {
  const int64_t first_query = s.query_offsets[sequence], first_key = s.key_offsets[sequence];
  return {sequence,
          head,
          s.key_heads > 0 ? head / (s.heads / s.key_heads) : head,
          query_row - first_query,
          query_row,
          first_key,
          s.query_offsets[sequence + 1] - first_query,
          s.key_offsets[sequence + 1] - first_key};
}

QKV_DEVICE inline int64_t distance(const AttentionShape& s, const Row& row, int64_t key) {
  return key - (row.query + (s.alignment == Alignment::last_key ? row.keys - row.queries : 0));
}

template <class Bias>
QKV_DEVICE inline int64_t bias_index(const Bias& bias, const Row& row, int64_t key) {
  return row.sequence * bias.batch_stride + row.head * bias.head_stride + row.query * bias.query_stride + key;
}

// The first number of a query, a key and a value.
QKV_DEVICE inline int64_t query_of(const AttentionShape& s, const AttentionInput& in, const Row& row) {
  return row.query_row * in.query_stride + row.head * s.d_k;
}
QKV_DEVICE inline int64_t key_of(const AttentionShape& s, const AttentionInput& in, const Row& row,
                                 int64_t key) {
  return (row.first_key_row + key) * in.key_stride + row.key_head * s.d_k;
}
QKV_DEVICE inline int64_t value_of(const AttentionShape& s, const AttentionInput& in, const Row& row,
                                   int64_t key) {
  return (row.first_key_row + key) * in.value_stride + row.key_head * s.d_v;
}

QKV_DEVICE inline bool allowed(const AttentionShape& s, const Row& row, int64_t key) {
  const int64_t away = distance(s, row, key);
  if (s.causal && away > 0) return false;
  if (s.window > 0 && (away < 0 ? -away : away) >= s.window) return false;
  return s.keep.data == nullptr || s.keep.data[bias_index(s.keep, row, key)] != 0;
}

// The input of the softmax for a product q k; slope: its derivative by that product.
QKV_DEVICE inline float score_of(const AttentionShape& s, const Row& row, int64_t key, float product,
                                 float* slope = nullptr) {
  float sum = product * s.scale;
  if (slope != nullptr) *slope = s.scale;
  if (s.softcap > 0) {
    const float tanh = ::tanhf(sum / s.softcap);
    sum = s.softcap * tanh;
    if (slope != nullptr) *slope *= 1 - tanh * tanh;
  }
  const int64_t away = distance(s, row, key);
  if (s.alibi_slopes != nullptr)
    sum -= s.alibi_slopes[row.head] * static_cast<float>(away < 0 ? -away : away);
  if (s.relative.data != nullptr)
    sum += s.relative.data[row.head * s.relative.head_stride + s.relative.zero + away];
  if (s.bias.data != nullptr) sum += s.bias.data[bias_index(s.bias, row, key)];
  return sum;
}

QKV_DEVICE inline float dropped(const AttentionShape& s, const Row& row, int64_t key) {
  return dropout_factor(s.dropout, row.query_row, row.head * (int64_t{1} << 22) + key);
}

// A shape with the arrays of offsets on the device.
class Placed {
 public:
  explicit Placed(const AttentionShape& given)
      : shape(given),
        host_query_offsets(given.query_offsets),
        host_key_offsets(given.key_offsets),
        query_tokens(given.query_offsets[given.sequences]),
        key_tokens(given.key_offsets[given.sequences]),
        queries_(given.query_offsets, given.sequences + 1),
        keys_(given.key_offsets, given.sequences + 1) {
    shape.query_offsets = queries_.data();
    shape.key_offsets = keys_.data();
  }

  AttentionShape shape;
  const int32_t *host_query_offsets, *host_key_offsets;
  int64_t query_tokens, key_tokens;

 private:
  Array<int32_t> queries_, keys_;
};

// Row (query row, head) number block of a launch with a block for each.
QKV_DEVICE inline Row row_of_block(const AttentionShape& s, int64_t block) {
  const int64_t query_row = block / s.heads;
  return row_of(s, sequence_of(s.query_offsets, s.sequences, query_row), block % s.heads, query_row);
}

// Attention in tiles by matrix instructions (attention_tiles.h); false if the heads are too wide for them.
bool attention_forward_in_tiles(const Placed& placed, const AttentionInput& in, const AttentionOutput& to);
// The gradients of queries, keys and values; means [heads, query tokens]: the product of output and
// its gradient, for each row of a head.
bool attention_backward_in_tiles(const Placed& placed, const AttentionInput& in, const float* log_sum_exp,
                                 const float* means, const Elements& d_output, int64_t d_output_stride,
                                 const AttentionGradients& to);
inline constexpr int kTileColumns = 32;

}  // namespace qkv::kernels::cuda
