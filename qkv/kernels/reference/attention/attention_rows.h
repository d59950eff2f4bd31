#pragma once
// The rows of attention's score matrices, common to forward and backward.

#include <cstddef>
#include <cstdint>

#include "qkv/kernels/backend/attention.h"

namespace qkv::kernels::reference {

// A query row of one head.
struct AttentionRow {
  int64_t sequence, head, query;  // query within the sequence
  int64_t key_head;
  int64_t query_row, first_key_row;  // in the batch
  int64_t queries, keys;
  // The start of the row's weights, in [heads, queries, keys] of one sequence after the other.
  size_t weights;
};

// Calls body(row) for every query row of every head, in the order of the weights.
template <class Body>
void for_rows(const AttentionShape& shape, const Body& body) {
  size_t weights = 0;
  for (int64_t s = 0; s < shape.sequences; ++s) {
    const int64_t first_query = shape.query_offsets[s], queries = shape.query_offsets[s + 1] - first_query;
    const int64_t first_key = shape.key_offsets[s], keys = shape.key_offsets[s + 1] - first_key;
    for (int64_t h = 0; h < shape.heads; ++h) {
      for (int64_t i = 0; i < queries; ++i) {
        body(AttentionRow{s, h, i, h / shape.query_heads_per_key(), first_query + i, first_key, queries, keys,
                          weights});
        weights += static_cast<size_t>(keys);
      }
    }
  }
}

inline size_t weight_count(const AttentionShape& shape) {
  size_t count = 0;
  for_rows(shape, [&](const AttentionRow& row) { count += static_cast<size_t>(row.keys); });
  return count;
}

inline Elements query_of(const AttentionShape& shape, const AttentionInput& input, const AttentionRow& row) {
  return input.query + (row.query_row * input.query_stride + row.head * shape.d_k);
}
inline Elements key_of(const AttentionShape& shape, const AttentionInput& input, const AttentionRow& row,
                       int64_t key) {
  return input.key + ((row.first_key_row + key) * input.key_stride + row.key_head * shape.d_k);
}
inline Elements value_of(const AttentionShape& shape, const AttentionInput& input, const AttentionRow& row,
                         int64_t key) {
  return input.value + ((row.first_key_row + key) * input.value_stride + row.key_head * shape.d_v);
}

// Number of positions from the query to the key.
inline int64_t distance(const AttentionShape& shape, const AttentionRow& row, int64_t key) {
  return key - (row.query + (shape.alignment == Alignment::last_key ? row.keys - row.queries : 0));
}

// The index of a score's element in a mask or bias (KeepMask, ScoreBias).
template <class Bias>
int64_t bias_index(const Bias& bias, const AttentionRow& row, int64_t key) {
  return row.sequence * bias.batch_stride + row.head * bias.head_stride + row.query * bias.query_stride + key;
}
inline int64_t relative_index(const AttentionShape& shape, const AttentionRow& row, int64_t key) {
  return row.head * shape.relative.head_stride + shape.relative.zero + distance(shape, row, key);
}

// scale q k, before softcap and biases.
double product(const AttentionShape& shape, const AttentionInput& input, const AttentionRow& row,
               int64_t key);
// The softmax input; -infinity if the query may not attend to the key.
double score(const AttentionShape& shape, const AttentionInput& input, const AttentionRow& row, int64_t key);

// softmax(q K^T scale + biases) of one row into weights[0 .. keys); all 0 if no key is allowed. Returns the
// log of the sum of exp(score), a sink included; -infinity for such a row.
double softmax_row(const AttentionShape& shape, const AttentionInput& input, const AttentionRow& row,
                   double* weights);

// Dropout's factor for the weight of a key.
double dropout_factor(const AttentionShape& shape, const AttentionRow& row, int64_t key);

}  // namespace qkv::kernels::reference
