#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "qkv/kernels/cpu/attention/attention_tasks.h"
#include "qkv/kernels/cpu/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "qkv/kernels/cpu/attention/attention_forward.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "qkv/kernels/cpu/attention/attention_capture-inl.h"
#include "qkv/kernels/cpu/attention/attention_product-inl.h"
#include "qkv/kernels/cpu/attention/attention_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::kernels::HWY_NAMESPACE {
namespace {

// Floats of keys and values packed at a time: a quarter of a megabyte of L2 cache.
constexpr int64_t kBlockFloats = int64_t{1} << 16;

// Up to this many queries of a sequence read keys and values in place, because packing costs more than
// repeated reading. Decoding steps have a single query.
constexpr int64_t kFewQueries = 4;

// Keys are packed into lanes (S = Q K^T), values as rows (O = P V), so that neither queries nor outputs are
// transposed, and a causal row costs little more than its visible keys.
class Forward {
 public:
  explicit Forward(const ForwardArguments& arguments)
      : shape_(arguments.shape),
        input_(arguments.input),
        output_(arguments.output),
        output_rows_(arguments.rows),
        capture_(arguments.output.capture) {
    const int64_t d_k = shape_.d_k;
    value_width_ = vectors_for(d_, shape_.d_v) * lanes_of(d_);
    const int64_t block = kBlockFloats / (d_k + value_width_) / kTileKeys * kTileKeys;
    block_keys_ = std::max(block, kTileKeys);
    const int64_t row_floats = value_width_ + lanes_of(d_) + 3;
    scratch_.start(block_keys_ * (d_k + value_width_) + kTileQueries * kTileKeys + kDropoutFloats +
                   kForwardQueries * row_floats);
    key_lanes_ = scratch_.take(block_keys_ * d_k);
    value_rows_ = scratch_.take(block_keys_ * value_width_);
    scores_ = scratch_.take(kTileQueries * kTileKeys);
    random_.bits = reinterpret_cast<uint16_t*>(scratch_.take(kDropoutFloats));
    outputs_ = scratch_.take(kForwardQueries * value_width_);
    sums_ = scratch_.take(kForwardQueries * lanes_of(d_));
    largest_ = scratch_.take(kForwardQueries);
    factor_ = scratch_.take(kForwardQueries);
    total_ = scratch_.take(kForwardQueries);
  }

  // Prefetches the data of the task after `now`, unless it is packed already.
  void prefetch(const AttentionTask& now, const AttentionTask& next) {
    const AttentionHead head(shape_, next.sequence);
    const int64_t row = head.first_query + next.first, d_k = shape_.d_k, d_v = shape_.d_v;
    const int64_t group = shape_.query_heads_per_key(), key_head = next.head / group;
    const bool packed =
        now.sequence == next.sequence && now.head / group == key_head && head.keys <= block_keys_;
    next_.query = {input_.query + row * input_.query_stride + next.head * d_k, input_.query_stride,
                   next.count, d_k};
    next_.output = {output_rows_ + row * output_.output_stride + next.head * d_v, output_.output_stride,
                    next.count, d_v};
    next_.keys = keys_ahead(head, key_head, 0, packed ? 0 : head.keys);
  }

  void run(const AttentionTask& task) {
    if (task.count <= 0) return;
    task_ = task;
    head_ = AttentionHead(shape_, task.sequence);
    key_head_ = task.head / shape_.query_heads_per_key();
    few_ = head_.queries <= kFewQueries && !shape_.fixed_order;
    const int64_t end = head_.key_limit(task.first + task.count - 1);
    for (int64_t block = 0; block < end; block += block_keys_) {
      // Keys before the window.
      if (block + block_keys_ <= head_.key_begin(task.first)) continue;
      pack(block);
      const int64_t following = block + block_keys_;
      ahead_ = following < end ? keys_ahead(head_, key_head_, following, head_.keys) : next_.keys;
      for_even_parts(task.count, kTileQueries, [&](int64_t first, int64_t count) HWY_ATTR {
        const int64_t seen = std::min(block + block_keys_, head_.key_limit(task.first + first + count - 1));
        first_tile_ = head_.key_begin(task.first + first) / kTileKeys * kTileKeys;
        for (int64_t key = std::max(block, first_tile_); key < seen; key += kTileKeys) {
          advance({task.first + first, count, key, std::min(kTileKeys, head_.keys - key)});
        }
      });
    }
    finish();
    if (capture_.wanted()) capture(end);
  }

 private:
  static constexpr int64_t kDropoutFloats = kTileQueries * kTileKeys / 2 + 64;

  struct KeysAhead {
    RowsAhead key, value;
  };
  // The rows of the keys [first, end), limited to one block.
  KeysAhead keys_ahead(const AttentionHead& head, int64_t key_head, int64_t first, int64_t end) const {
    const int64_t row = head.first_key + first;
    const int64_t rows = head.queries <= kFewQueries ? end - first : std::min(end - first, block_keys_);
    return {
        {input_.key + row * input_.key_stride + key_head * shape_.d_k, input_.key_stride, rows, shape_.d_k},
        {input_.value + row * input_.value_stride + key_head * shape_.d_v, input_.value_stride, rows,
         shape_.d_v}};
  }
  // Numbers the score rows of a block of keys; the same number of key rows is prefetched meanwhile.
  int64_t row_ahead(const ScoreTile& group, int64_t i) const {
    return (group.key - packed_block_) / kTileKeys * task_.count + place(group.query + i);
  }
  // Index of a query's state.
  int64_t place(int64_t query) const { return query - task_.first; }
  const float* query_row(int64_t query) const {
    return input_.query + (head_.first_query + query) * input_.query_stride + task_.head * shape_.d_k;
  }
  const float* tile_keys(int64_t key) const { return key_lanes_ + (key - packed_block_) * shape_.d_k; }
  const float* key_row(int64_t key) const {
    return input_.key + (head_.first_key + key) * input_.key_stride + key_head_ * shape_.d_k;
  }
  const float* value_row(int64_t key) const {
    return input_.value + (head_.first_key + key) * input_.value_stride + key_head_ * shape_.d_v;
  }
  // Whether values are read in place.
  bool values_in_place() const { return few_ && value_width_ == shape_.d_v; }
  const float* tile_values(int64_t key) const {
    if (values_in_place()) return value_row(key);
    return value_rows_ + (key - packed_block_) * value_width_;
  }

  // Packs keys and values of a block, unless the previous task has done so.
  void pack(int64_t block) {
    if (packed_sequence_ == task_.sequence && packed_head_ == key_head_ && packed_block_ == block) return;
    packed_sequence_ = task_.sequence;
    packed_head_ = key_head_;
    packed_block_ = block;
    const int64_t end = std::min(block + block_keys_, head_.keys), d_k = shape_.d_k, d_v = shape_.d_v;
    for (int64_t key = block; key < end; key += kTileKeys) {
      const int64_t keys = std::min(kTileKeys, end - key);
      if (!few_) {
        pack_transposed(key_row(key), input_.key_stride, keys, d_k, shape_.scale,
                        key_lanes_ + (key - block) * d_k, padded(keys));
      }
      if (!values_in_place()) {
        copy_padded(d_, value_row(key), input_.value_stride, keys, d_v, 1.0f,
                    value_rows_ + (key - block) * value_width_, value_width_);
      }
    }
  }

  // The masked scores of a group, written to rows from `scores`.
  void score(const ScoreTile& tile, const ScoreTile& group, float* scores) {
    if (few_) {
      // Memory-bound: prefetches the next head's data while this one computes.
      for (int64_t j = 0; j < group.keys; ++j) {
        next_.keys.key.fetch(group.key + j);
        next_.keys.value.fetch(group.key + j);
      }
      for (int64_t i = 0; i < group.queries; ++i) {
        dot_products(
            d_, query_row(group.query + i), shape_.d_k, [&](int64_t j) { return key_row(tile.key + j); },
            group.keys, shape_.scale, scores + i * kTileKeys);
      }
      mask(group, scores);
      return;
    }
    multiply({.a = {query_row(group.query), input_.query_stride, 1},
              .rows = group.queries,
              .b = tile_keys(tile.key),
              .b_stride = padded(tile.keys),
              .c = scores,
              .c_stride = kTileKeys,
              .vectors = vectors_for(d_, padded(group.keys))},
             [&](int64_t, int64_t) {
               return Depth{0, shape_.d_k};
             });
    mask(group, scores);
  }

  void mask(const ScoreTile& group, float* scores) const {
    if (shape_.softcap > 0) cap_scores(d_, shape_.softcap, group, scores, nullptr);
    mask_scores(d_, shape_, task_.sequence, task_.head, head_, group, scores);
  }

  // Adds a tile of keys to the outputs of a tile of queries.
  void advance(const ScoreTile& tile) {
    for_causal_groups(head_, tile, [&](const ScoreTile& group) HWY_ATTR {
      float* scores = scores_ + (group.query - tile.query) * kTileKeys;
      score(tile, group, scores);
      find_factors(group, scores);
      if (shape_.dropout.active()) {
        draw_bits(shape_.dropout, task_.head, head_.first_query, group, random_);
        exponentiate<true>(tile, group, scores);
      } else {
        exponentiate<false>(tile, group, scores);
      }
    });
    const int64_t from = head_.first_query_of(tile.key, tile.query);
    const int64_t at = place(from);
    multiply({.a = {scores_ + (from - tile.query) * kTileKeys, kTileKeys, 1},
              .rows = tile.query + tile.queries - from,
              .b = tile_values(tile.key),
              .b_stride = values_in_place() ? input_.value_stride : value_width_,
              .c = outputs_ + at * value_width_,
              .c_stride = value_width_,
              .vectors = value_width_ / lanes_of(d_),
              .start = tile.key == first_tile_ ? Start::zero : Start::rescale,
              .factor = factor_ + at},
             [&](int64_t first, int64_t count) {
               return Depth{0, seen_keys(head_, tile, from + first + count - 1)};
             });
  }

  // Updates each row's largest score, and computes the factor for the sums so far.
  void find_factors(const ScoreTile& group, float* HWY_RESTRICT scores) {
    const int64_t lanes = lanes_of(d_);
    const bool first = group.key == first_tile_;
    float* const largest = largest_ + place(group.query);
    float* const factor = factor_ + place(group.query);
    const auto minus_infinity = hn::Set(d_, kMinusInfinity);
    for (int64_t i = 0; i < group.queries; ++i) {
      ahead_.key.fetch(row_ahead(group, i));
      float* row = scores + i * kTileKeys;
      const int64_t seen = seen_keys(head_, group, group.query + i), full = seen / lanes * lanes;
      auto most = minus_infinity;
      for (int64_t j = 0; j < full; j += lanes) most = hn::Max(most, hn::Load(d_, row + j));
      if (full < seen) {
        const auto mask = hn::FirstN(d_, static_cast<size_t>(seen - full));
        const auto last = hn::IfThenElse(mask, hn::Load(d_, row + full), minus_infinity);
        hn::Store(last, d_, row + full);
        most = hn::Max(most, last);
      }
      const float row_largest = hn::GetLane(hn::MaxOfLanes(d_, most));
      if (first) {
        largest[i] = row_largest;
      } else {
        factor[i] = largest[i];
        largest[i] = std::max(largest[i], row_largest);
      }
    }
    if (first) return;
    for_vectors(d_, group.queries, [&](auto part, int64_t i) HWY_ATTR {
      const auto shift = shift_of(d_, load(d_, largest + i, part));
      store(d_, exponential_of_difference(d_, hn::Sub(load(d_, factor + i, part), shift)), factor + i, part);
    });
  }

  // Replaces scores by exp(score - largest), and adds them to the sums.
  template <bool kDropout>
  void exponentiate(const ScoreTile& tile, const ScoreTile& group, float* HWY_RESTRICT scores) {
    const int64_t lanes = lanes_of(d_), at = place(group.query), width = padded(tile.keys);
    for (int64_t i = 0; i < group.queries; ++i, scores += kTileKeys) {
      ahead_.value.fetch(row_ahead(group, i));
      const auto shift = shift_of(d_, hn::Set(d_, largest_[at + i]));
      float* sums = sums_ + (at + i) * lanes;
      auto sum = hn::Zero(d_);
      const int64_t seen = seen_keys(head_, group, group.query + i);
      for (int64_t j = 0; j < seen; j += lanes) {
        auto e = exponential_of_difference(d_, hn::Sub(hn::Load(d_, scores + j), shift));
        sum = hn::Add(sum, e);
        if constexpr (kDropout) {
          e = hn::IfThenElseZero(kept_lanes(d_, shape_.dropout, random_.bits + i * random_.stride + j), e);
        }
        hn::Store(e, d_, scores + j);
      }
      clear_unseen(d_, seen, width, scores);
      if (group.key > first_tile_) sum = hn::MulAdd(hn::Load(d_, sums), hn::Set(d_, factor_[at + i]), sum);
      hn::Store(sum, d_, sums);
    }
  }

  // Divides by the sums and writes the outputs. A query without visible keys has a sum of 0.
  void finish() {
    const int64_t lanes = lanes_of(d_), row = head_.first_query + task_.first;
    float* to = output_rows_ + row * output_.output_stride + task_.head * shape_.d_v;
    const float kept = shape_.dropout.active() ? shape_.dropout.scale() : 1.0f;
    for (int64_t i = 0; i < task_.count; ++i, to += output_.output_stride) {
      next_.query.fetch(i);
      next_.output.fetch(i);
      const bool sees = head_.key_limit(task_.first + i) > head_.key_begin(task_.first + i);
      if (!sees) largest_[i] = kMinusInfinity;
      total_[i] = sees ? hn::GetLane(hn::SumOfLanes(d_, hn::Load(d_, sums_ + i * lanes))) : 0.0f;
      if (total_[i] == 0) {
        std::fill_n(to, shape_.d_v, 0.0f);
      } else {
        const float factor = shape_.sinks == nullptr ? kept / total_[i] : kept * add_sink(i) / total_[i];
        put_row<false>(d_, outputs_ + i * value_width_, shape_.d_v, hn::Set(d_, factor), to);
      }
    }
    if (output_.log_sum_exp == nullptr) return;
    float* log_sum_exp = output_.log_sum_exp + task_.head * shape_.query_offsets[shape_.sequences] + row;
    for_vectors(d_, task_.count, [&](auto part, int64_t i) HWY_ATTR {
      const auto total = hn::Load(d_, total_ + i);
      const auto sum = hn::Add(hn::Load(d_, largest_ + i), logarithm(d_, total));
      const auto nothing = hn::Eq(total, hn::Zero(d_));
      store(d_, hn::IfThenElse(nothing, hn::Set(d_, kMinusInfinity), sum), log_sum_exp + i, part);
    });
  }

  // Adds the head's sink to a row's sum; returns the factor by which the other summands have changed.
  float add_sink(int64_t i) {
    const float sink = shape_.sinks[task_.head], most = std::max(largest_[i], sink);
    const auto exponential = [&](float score) HWY_ATTR {
      return hn::GetLane(exponential_of_difference(d_, hn::Set(d_, score - most)));
    };
    const float factor = exponential(largest_[i]);
    total_[i] = factor * total_[i] + exponential(sink);
    largest_[i] = most;
    return factor;
  }

  // Recomputes the scores of the captured rows, now that the sums are known.
  void capture(int64_t end) {
    const int64_t first_row = head_.first_query + task_.first;
    const int64_t number = task_.head * shape_.query_offsets[shape_.sequences] + first_row;
    for (int64_t i = 0; i < task_.count; ++i) {
      capture_.begin(number + i, head_.key_limit(task_.first + i), head_.keys);
    }
    for (int64_t key = 0; key < end; key += kTileKeys) {
      pack(key / block_keys_ * block_keys_);
      for_even_parts(task_.count, kTileQueries, [&](int64_t first, int64_t count) HWY_ATTR {
        const ScoreTile tile{task_.first + first, count, key, std::min(kTileKeys, head_.keys - key)};
        for_causal_groups(head_, tile, [&](const ScoreTile& group) HWY_ATTR {
          score(tile, group, scores_);
          for (int64_t i = 0; i < group.queries; ++i) {
            const int64_t at = place(group.query + i);
            capture_.add(number + at, key, seen_keys(head_, group, group.query + i), largest_[at], total_[at],
                         scores_ + i * kTileKeys);
          }
        });
      });
    }
  }

  const Floats d_;
  const AttentionShape& shape_;
  const F32Input& input_;
  const AttentionOutput& output_;
  float* const output_rows_;
  const CaptureWriter capture_;
  AttentionScratch& scratch_ = AttentionScratch::of_this_thread();
  AttentionTask task_;
  AttentionHead head_;
  KeysAhead ahead_;  // of the next block, or of the next task
  struct {
    RowsAhead query, output;
    KeysAhead keys;
  } next_;  // task
  int64_t key_head_ = 0;
  bool few_ = false;        // queries
  int64_t first_tile_ = 0;  // the first key of the first tile for these queries
  int64_t packed_sequence_ = -1, packed_head_ = -1, packed_block_ = -1;
  int64_t block_keys_ = 0, value_width_ = 0;
  float* key_lanes_ = nullptr;   // by tile: [d_k] rows of lanes, scaled
  float* value_rows_ = nullptr;  // [keys, value_width_]
  float* scores_ = nullptr;      // [kTileQueries, kTileKeys]
  DropoutBits random_{};         // of a group
  // By row of the task:
  float* outputs_ = nullptr;  // [value_width_], not divided by the sum yet
  float* sums_ = nullptr;     // [lanes], of exp(score - largest)
  float* largest_ = nullptr;  // score
  float* factor_ = nullptr;   // rescales the previous sums
  float* total_ = nullptr;    // the final sum
};

void forward_tasks(const ForwardArguments& arguments, const AttentionTask* tasks, size_t count) {
  Forward forward(arguments);
  for (size_t t = 0; t < count; ++t) {
    forward.prefetch(tasks[t], tasks[t + 1]);
    forward.run(tasks[t]);
  }
}

}  // namespace
}  // namespace qkv::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qkv::kernels::cpu {

HWY_EXPORT(forward_tasks);

void attention_forward(const AttentionShape& shape, const AttentionInput& input,
                       const AttentionOutput& output) {
  const ForwardArguments arguments{shape, F32Input(input), output, output.output.f32()};
  AttentionPlan& plan = AttentionPlan::of_this_thread();
  plan.forward(shape);
  plan.run([&](const AttentionTask* tasks, size_t count) {
    HWY_DYNAMIC_DISPATCH(forward_tasks)(arguments, tasks, count);
  });
}

}  // namespace qkv::kernels::cpu
#endif  // HWY_ONCE
