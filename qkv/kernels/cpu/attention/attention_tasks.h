#pragma once
// The division of attention into tasks, and the scratch memory of a thread.

#include <hwy/aligned_allocator.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "qkv/kernels/backend/attention.h"

namespace qkv::kernels {

// Tiles of scores: queries by keys, counted from the first key. A row's bits depend on the bounds of its key
// tiles, which are the same for all queries, and not on other rows of the tile.
inline constexpr int64_t kTileQueries = 48, kTileKeys = 64;
// Keys in lanes are padded to a multiple of this, the widest vector.
inline constexpr int64_t kLaneUnit = 16;

// Maximum queries of a forward task, which share packed keys and values.
inline constexpr int64_t kForwardQueries = 384;

// A unit of work. Forward: some queries of one head. Backward: some keys of one key head, with all queries
// that see them.
struct AttentionTask {
  int64_t sequence = 0, head = 0;
  int64_t first = 0, count = 0;  // queries, or keys, within the sequence
  // Backward, if a head's keys are split: buffer for this part's contribution to the queries' gradients,
  // [query heads of the key head, queries, d_k]. Null: the gradient itself.
  float* partial = nullptr;
  // Backward, if the relative bias has a gradient: this task's contribution, [query heads of the key head,
  // queries + count], by distance, starting with the last query and the first key.
  float* distances = nullptr;
};

// AttentionInput, in f32.
struct F32Input {
  explicit F32Input(const AttentionInput& in)
      : query(in.query.f32()),
        key(in.key.f32()),
        value(in.value.f32()),
        query_stride(in.query_stride),
        key_stride(in.key_stride),
        value_stride(in.value_stride) {}

  const float *query, *key, *value;
  int64_t query_stride, key_stride, value_stride;
};

// The arguments of attention_backward().
struct BackwardArguments {
  const AttentionShape& shape;
  F32Input input;
  const float* output;
  int64_t output_stride;
  const float* log_sum_exp;
  const float* grad_output;
  int64_t grad_output_stride;
  const AttentionGradients& gradients;
  float *d_query, *d_key, *d_value;  // those of `gradients`, in f32
};

// The arguments of attention_forward().
struct ForwardArguments {
  const AttentionShape& shape;
  F32Input input;
  const AttentionOutput& output;
  float* rows;  // output.output, in f32
};

// One sequence from a task's point of view.
struct AttentionHead {
  AttentionHead() = default;
  AttentionHead(const AttentionShape& shape, int64_t sequence)
      : first_query(shape.query_offsets[sequence]),
        first_key(shape.key_offsets[sequence]),
        queries(shape.query_offsets[sequence + 1] - first_query),
        keys(shape.key_offsets[sequence + 1] - first_key),
        position(shape.alignment == Alignment::last_key ? keys - queries : 0),
        window(shape.window),
        ahead(shape.causal ? 0 : shape.window - 1),
        limited(shape.causal || shape.window > 0) {}

  // The end of the keys visible to query i.
  int64_t key_limit(int64_t i) const {
    return limited ? std::clamp<int64_t>(i + 1 + position + ahead, 0, keys) : keys;
  }
  // The first key visible to query i, or one before it.
  int64_t key_begin(int64_t i) const {
    return window > 0 ? std::max<int64_t>(0, i + 1 + position - window) : 0;
  }
  // The first query from `from` on that sees key j, were it not for the window's begin.
  int64_t first_query_of(int64_t j, int64_t from) const {
    return limited ? std::max(from, j - position - ahead) : from;
  }

  int64_t first_query = 0, first_key = 0;  // rows in the batch
  int64_t queries = 0, keys = 0;
  int64_t position = 0;  // of query 0, if key 0 is at position 0
  int64_t window = 0;    // sliding window; 0: all keys
  int64_t ahead = 0;     // visible keys after the query's own, if limited
  bool limited = false;  // causal, or by a window
};

// The tasks of a call, in order. The division depends on the shape only, and for sums in the backward pass on
// one sequence only.
class AttentionPlan {
 public:
  static AttentionPlan& of_this_thread();

  void forward(const AttentionShape& shape);
  // distances: whether the relative bias's gradient is wanted.
  void backward(const AttentionShape& shape, bool distances);

  // Calls body(tasks, count) for pieces of the tasks, on several threads. tasks[count] is the next task in
  // order, or the last one repeated.
  void run(const std::function<void(const AttentionTask*, size_t)>& body) const;
  void run_on_one_thread(const std::function<void(const AttentionTask*, size_t)>& body) const;

  // Adds the separate contributions to the queries' gradients, in the order of their keys.
  void add_partials(const AttentionShape& shape, float* query_gradient, int64_t stride) const;
  // Adds the contributions to the relative bias's gradient, task by task.
  void add_distances(const AttentionShape& shape, float* gradient) const;

 private:
  void clear();
  void add(const AttentionTask& task, int64_t work);
  void end();
  void keep_distances(const AttentionShape& shape);

  std::vector<AttentionTask> tasks_;  // the last one is stored twice
  std::vector<size_t> pieces_;        // index of each piece's first task, and the number of tasks
  int64_t piece_work_ = 0;
  hwy::AlignedFreeUniquePtr<float[]> partials_;
  int64_t partial_capacity_ = 0;
  std::vector<float> distances_;
};

// A thread's scratch memory, kept between calls. Parts are allocated sequentially, aligned; a part is valid
// until the next call of start().
class AttentionScratch {
 public:
  static AttentionScratch& of_this_thread();

  // Reserves `floats` numbers for up to 32 parts.
  void start(int64_t floats);
  float* take(int64_t floats);

 private:
  static constexpr int64_t kAlign = 32;  // floats; two cache lines

  hwy::AlignedFreeUniquePtr<float[]> memory_;
  int64_t capacity_ = 0, used_ = 0;
};

}  // namespace qkv::kernels
