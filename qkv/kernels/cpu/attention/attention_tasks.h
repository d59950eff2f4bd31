#pragma once
// How attention's work is cut, and the memory in which a thread does it.

#include <hwy/aligned_allocator.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "qkv/kernels/backend/attention.h"

namespace qkv::kernels {

// Tiles of scores: queries by keys, which begin at the first key. A row's bits depend on the bounds of its
// key tiles, which are the same for every query, and not on its neighbours in the tile.
inline constexpr int64_t kTileQueries = 48, kTileKeys = 64;
// Keys in lanes are padded to this many, the widest vector.
inline constexpr int64_t kLaneUnit = 16;

// Queries of one task of the forward pass, at most: they share the packed keys and values.
inline constexpr int64_t kForwardQueries = 384;

// What is done at a time. Forward: some queries of one head. Backward: some keys of one head of keys, with
// all queries that see them.
struct AttentionTask {
  int64_t sequence = 0, head = 0;
  int64_t first = 0, count = 0;  // queries, or keys, within the sequence
  // Backward, where a head's keys are cut: the place of this part's share of the queries' gradients, [query
  // heads of the key head, queries, d_k]. Null: the gradient itself.
  float* partial = nullptr;
  // Backward, where the relative bias has a gradient: this task's share, [query heads of the key head,
  // queries
  // + count], by distance, the first number for the last query and the first key.
  float* distances = nullptr;
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
        position(shape.alignment == Alignment::last_key ? keys - queries : 0),
        window(shape.causal ? shape.window : 0),
        causal(shape.causal) {}

  // The number of keys, from the first on, beyond which query i sees none.
  int64_t key_limit(int64_t i) const {
    return causal ? std::clamp<int64_t>(i + 1 + position, 0, keys) : keys;
  }
  // The first key that query i sees, or one before it.
  int64_t key_begin(int64_t i) const {
    return window > 0 ? std::max<int64_t>(0, i + 1 + position - window) : 0;
  }
  // The first query from `from` on that is not before key j.
  int64_t first_query_of(int64_t j, int64_t from) const {
    return causal ? std::max(from, j - position) : from;
  }

  int64_t first_query = 0, first_key = 0;  // rows in the batch
  int64_t queries = 0, keys = 0;
  int64_t position = 0;  // of query 0, where key 0 is at position 0
  int64_t window = 0;    // of causal attention; 0: all keys
  bool causal = false;
};

// The tasks of a call, in their order. How the work is cut depends on the shape only, and what a task of the
// backward pass sums up on one sequence only.
class AttentionPlan {
 public:
  static AttentionPlan& of_this_thread();

  void forward(const AttentionShape& shape);
  // distances: whether shares of a relative bias's gradient are wanted.
  void backward(const AttentionShape& shape, bool distances);

  // Calls body(tasks, count) for pieces of the tasks, on several threads. tasks[count] is the task that comes
  // next in order, or the last one again.
  void run(const std::function<void(const AttentionTask*, size_t)>& body) const;
  void run_on_one_thread(const std::function<void(const AttentionTask*, size_t)>& body) const;

  // Adds the shares of the queries' gradients that were kept apart, in the order of their keys.
  void add_partials(const AttentionShape& shape, float* query_gradient, int64_t stride) const;
  // Adds the shares of the relative bias's gradient, task by task.
  void add_distances(const AttentionShape& shape, float* gradient) const;

 private:
  void clear();
  void add(const AttentionTask& task, int64_t work);
  void end();
  void keep_distances(const AttentionShape& shape);

  std::vector<AttentionTask> tasks_;  // the last one is there twice
  std::vector<size_t> pieces_;        // the first task of each, and their number
  int64_t piece_work_ = 0;
  hwy::AlignedFreeUniquePtr<float[]> partials_;
  int64_t partial_capacity_ = 0;
  std::vector<float> distances_;
};

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
