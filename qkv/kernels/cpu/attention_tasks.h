#pragma once
// How attention's work is cut, and the memory in which a thread does it.

#include <hwy/aligned_allocator.h>

#include <algorithm>
#include <cstdint>
#include <functional>

#include "qkv/kernels/attention.h"

namespace qkv::kernels {

// Tiles of scores: queries by keys, which begin at the first key. A row's bits depend on the bounds of its
// key tiles, which are the same for every query, and not on its neighbours in the tile.
inline constexpr int64_t kTileQueries = 48, kTileKeys = 64;
// Keys in lanes are padded to this many, the widest vector.
inline constexpr int64_t kLaneUnit = 16;

// Queries of one task of the forward pass.
inline constexpr int64_t kForwardQueries = 192;

// Some queries of one head of one sequence.
struct AttentionTask {
  int64_t sequence = 0, head = 0;
  int64_t first = 0, count = 0;  // queries within the sequence
};

// What attention_backward() is called with.
struct BackwardArguments {
  const AttentionShape& shape;
  const AttentionInput& input;
  const float* output;
  int64_t output_stride;
  const float* log_sum_exp;
  const float* grad_output;
  int64_t grad_output_stride;
  const AttentionGradients& gradients;
};

// What attention_forward() is called with.
struct ForwardArguments {
  const AttentionShape& shape;
  const AttentionInput& input;
  const AttentionOutput& output;
};

// One sequence as a task's code sees it.
struct AttentionHead {
  AttentionHead() = default;
  AttentionHead(const AttentionShape& shape, int64_t sequence)
      : first_query(shape.query_offsets[sequence]),
        first_key(shape.key_offsets[sequence]),
        queries(shape.query_offsets[sequence + 1] - first_query),
        keys(shape.key_offsets[sequence + 1] - first_key),
        causal(shape.causal) {}

  // The number of keys, from the first on, beyond which query i sees none.
  int64_t key_limit(int64_t i) const {
    return causal ? std::clamp<int64_t>(i + 1 + keys - queries, 0, keys) : keys;
  }
  // The first query from `from` on that sees key j.
  int64_t first_query_of(int64_t j, int64_t from) const {
    return causal ? std::max(from, j - (keys - queries)) : from;
  }

  int64_t first_query = 0, first_key = 0;  // rows in the batch
  int64_t queries = 0, keys = 0;
  bool causal = false;
};

// Calls body(tasks, count) for pieces of all (sequence, head), each cut into blocks of block_queries queries
// (0: not cut), on several threads. How it is cut depends on the shape only. tasks[count] is the task that
// comes next in order, or the last one again.
void for_attention_tasks(const AttentionShape& shape, int64_t block_queries, bool one_thread,
                         const std::function<void(const AttentionTask*, size_t)>& body);

// The multiplications of one product of a width of 1, summed over sequences and heads: the pairs of a query
// and a key that causality allows.
uint64_t attention_pairs(const AttentionShape& shape);
// Numbers of the queries and the outputs together, and of the keys and the values of sequences that have
// queries.
int64_t query_numbers(const AttentionShape& shape);
int64_t key_numbers(const AttentionShape& shape);

// A thread's own memory, kept from call to call. Parts are handed out one after the other, aligned; a part
// is valid until the next call of start().
class AttentionScratch {
 public:
  static AttentionScratch& of_this_thread();

  // Makes room for `floats` numbers in up to 32 parts.
  void start(int64_t floats);
  float* take(int64_t floats);

 private:
  static constexpr int64_t kAlign = 32;  // floats; two cache lines

  hwy::AlignedFreeUniquePtr<float[]> memory_;
  int64_t capacity_ = 0, used_ = 0;
};

}  // namespace qkv::kernels
