#include <algorithm>
#include <cmath>
#include <cstdint>

#include "qkv/kernels/attention.h"
#include "qkv/kernels/counters.h"
#include "qkv/kernels/cpu/attention_tasks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "qkv/kernels/cpu/attention_forward.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "qkv/kernels/cpu/attention_product-inl.h"
#include "qkv/kernels/cpu/attention_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::kernels::HWY_NAMESPACE {
namespace {

// Queries that share one copy of the keys and values; below kCopyQueries it does not pay.
constexpr int64_t kCopyQueries = 96;
// Floats of keys and values that are copied at a time: half of a megabyte of second cache.
constexpr int64_t kBlockFloats = int64_t{1} << 16;

// A tile of queries on its way through the keys.
struct QueryTile {
  int64_t first, count;  // within the task
  float* query;          // [d_k] rows of lanes, scaled
  float* output;         // [d_v] rows of lanes
  SoftmaxState state;
};

class Forward {
 public:
  Forward(const AttentionShape& shape, const AttentionInput& input, const AttentionOutput& output,
          const AttentionTask& task)
      : shape_(shape), input_(input), output_(output), task_(task), head_(shape, task) {}

  void run() {
    if (task_.count <= 0) return;
    allocate();
    for_query_tiles(task_.count, most_queries(),
                    [&](int64_t first, int64_t count) { prepare(first, count); });
    for (int64_t key = 0; key < head_.keys; key += block_keys_) {
      const int64_t keys = std::min(block_keys_, head_.keys - key);
      find_keys(key, keys);
      for (int64_t t = 0; t < tiles_; ++t) advance(tile_[t], key, keys);
    }
    for (int64_t t = 0; t < tiles_; ++t) finish(tile_[t]);
    if (output_.weights != nullptr) {
      for (int64_t t = 0; t < tiles_; ++t) write_weights(tile_[t]);
    }
  }

 private:
  // Causality wastes part of a tile, the less the narrower it is.
  int64_t most_queries() const { return shape_.causal ? 32 : kTileQueries; }

  void allocate() {
    const int64_t d_k = shape_.d_k, d_v = shape_.d_v;
    const int64_t block = std::max<int64_t>(kBlockFloats / (d_k + d_v), 1);
    block_keys_ = (block + kTileKeys - 1) / kTileKeys * kTileKeys;
    copies_ = task_.count > kCopyQueries;
    const int64_t copied = copies_ ? std::min(block_keys_, head_.keys) : 0;
    const int64_t tile_floats = kTileStride * (d_k + d_v + 3);
    const int64_t most_tiles = (task_.count + kLaneUnit - 1) / kLaneUnit;
    scratch_.start(copied * (d_k + d_v) + kTileStride * kTileKeys + most_tiles * tile_floats);
    scores_ = scratch_.take(kTileStride * kTileKeys);
    key_copy_ = scratch_.take(copied * d_k);
    value_copy_ = scratch_.take(copied * d_v);
  }

  void prepare(int64_t first, int64_t count) {
    QueryTile& tile = tile_[tiles_++];
    tile.first = first;
    tile.count = count;
    tile.query = scratch_.take(kTileStride * shape_.d_k);
    tile.output = scratch_.take(kTileStride * shape_.d_v);
    float* state = scratch_.take(kTileStride * 3);
    tile.state = {state, state + kTileStride, state + 2 * kTileStride};
    std::fill_n(tile.state.largest, kTileStride, kMinusInfinity);
    std::fill_n(tile.state.sum, kTileStride, 0.0f);
    const int64_t row = head_.first_query + task_.first + first;
    lay_in_lanes(d_, input_.query + row * input_.query_stride + task_.head * shape_.d_k, input_.query_stride,
                 count, shape_.d_k, shape_.scale, tile.query, kTileStride);
  }

  // Makes the rows of keys [key, key + keys) known to score_tile() and advance(), copied where they are read
  // often: rows that are far apart would push each other out of the first cache.
  void find_keys(int64_t key, int64_t keys) {
    key_ = input_.key + (head_.first_key + key) * input_.key_stride + task_.head * shape_.d_k;
    value_ = input_.value + (head_.first_key + key) * input_.value_stride + task_.head * shape_.d_v;
    key_stride_ = input_.key_stride;
    value_stride_ = input_.value_stride;
    first_known_ = key;
    if (!copies_) return;
    copy_rows(key_, key_stride_, keys, shape_.d_k, key_copy_, shape_.d_k);
    copy_rows(value_, value_stride_, keys, shape_.d_v, value_copy_, shape_.d_v);
    key_ = key_copy_;
    value_ = value_copy_;
    key_stride_ = shape_.d_k;
    value_stride_ = shape_.d_v;
  }

  // The masked scores of a tile of queries and the keys [key, key + keys).
  ScoreTile score_tile(const QueryTile& tile, int64_t key, int64_t keys) {
    const ScoreTile place{task_.first + tile.first, tile.count, key, keys};
    multiply<Start::zero>({key_ + (key - first_known_) * key_stride_, key_stride_, 1}, keys, shape_.d_k,
                          tile.query, kTileStride, scores_, kTileStride, vectors_for(d_, tile.count));
    mask_scores(d_, shape_, task_, head_, place, scores_);
    return place;
  }

  int64_t key_limit(const QueryTile& tile) const {
    return head_.key_limit(task_.first + tile.first + tile.count - 1);
  }

  // Takes the keys [first, first + count) into a tile's outputs.
  void advance(const QueryTile& tile, int64_t first, int64_t count) {
    const int64_t end = std::min(first + count, key_limit(tile)), vectors = vectors_for(d_, tile.count);
    for (int64_t key = first; key < end; key += kTileKeys) {
      const int64_t keys = std::min(kTileKeys, end - key);
      const ScoreTile place = score_tile(tile, key, keys);
      softmax_tile(d_, place, scores_, tile.state);
      if (shape_.dropout.active()) {
        for_kept(d_, shape_.dropout, task_.head, head_.first_query, place,
                 [&](int64_t offset, auto kept) HWY_ATTR {
                   hn::Store(hn::IfThenElseZero(kept, hn::Load(d_, scores_ + offset)), d_, scores_ + offset);
                 });
      }
      const Left value{value_ + (key - first_known_) * value_stride_, 1, value_stride_};
      if (key == 0) {
        multiply<Start::zero>(value, shape_.d_v, keys, scores_, kTileStride, tile.output, kTileStride,
                              vectors);
      } else {
        multiply<Start::rescale>(value, shape_.d_v, keys, scores_, kTileStride, tile.output, kTileStride,
                                 vectors, tile.state.factor);
      }
    }
  }

  // Divides by the sums and writes the outputs. A query that saw no key has a sum of 0.
  void finish(const QueryTile& tile) {
    const int64_t row = head_.first_query + task_.first + tile.first, lanes = lanes_of(d_);
    float* to = output_.output + row * output_.output_stride + task_.head * shape_.d_v;
    if (key_limit(tile) == 0) {
      for (int64_t i = 0; i < tile.count; ++i) std::fill_n(to + i * output_.output_stride, shape_.d_v, 0.0f);
    } else {
      const auto zero = hn::Zero(d_),
                 kept = hn::Set(d_, shape_.dropout.active() ? shape_.dropout.scale() : 1.0f);
      for (int64_t i = 0; i < tile.count; i += lanes) {
        const auto sum = hn::Load(d_, tile.state.sum + i);
        const auto factor = hn::IfThenZeroElse(hn::Eq(sum, zero), hn::Div(kept, sum));
        for (int64_t j = 0; j < shape_.d_v; ++j) {
          float* place = tile.output + j * kTileStride + i;
          hn::Store(hn::Mul(hn::Load(d_, place), factor), d_, place);
        }
      }
      transpose<false>(tile.output, kTileStride, shape_.d_v, tile.count, 1.0f, to, output_.output_stride);
    }
    if (output_.log_sum_exp == nullptr) return;
    float* log_sum_exp = output_.log_sum_exp + task_.head * shape_.query_offsets[shape_.sequences] + row;
    for (int64_t i = 0; i < tile.count; ++i) {
      const float sum = tile.state.sum[i];
      log_sum_exp[i] = sum == 0 ? kMinusInfinity : tile.state.largest[i] + std::log(sum);
    }
  }

  // The scores once more, now that the sums are known.
  void write_weights(const QueryTile& tile) {
    const int64_t lanes = lanes_of(d_), limit = key_limit(tile);
    float* to = output_.weights + output_.weight_offsets[task_.sequence] +
                (task_.head * head_.queries + task_.first + tile.first) * head_.keys;
    for (int64_t i = 0; i < tile.count; ++i) {
      std::fill_n(to + i * head_.keys + limit, head_.keys - limit, 0.0f);
    }
    if (limit == 0) return;
    for (int64_t i = 0; i < tile.count; i += lanes) {
      const auto sum = hn::Load(d_, tile.state.sum + i);
      hn::Store(hn::IfThenZeroElse(hn::Eq(sum, hn::Zero(d_)), hn::Div(hn::Set(d_, 1.0f), sum)), d_,
                tile.state.factor + i);
    }
    copies_ = false;
    find_keys(0, head_.keys);
    for (int64_t key = 0; key < limit; key += kTileKeys) {
      const int64_t keys = std::min(kTileKeys, limit - key);
      score_tile(tile, key, keys);
      for (int64_t i = 0; i < tile.count; i += lanes) {
        const auto shift = shift_of(d_, hn::Load(d_, tile.state.largest + i));
        const auto factor = hn::Load(d_, tile.state.factor + i);
        for (int64_t j = 0; j < keys; ++j) {
          float* place = scores_ + j * kTileStride + i;
          const auto e = exponential(d_, hn::Sub(hn::Load(d_, place), shift));
          hn::Store(hn::Mul(e, factor), d_, place);
        }
      }
      transpose<false>(scores_, kTileStride, keys, tile.count, 1.0f, to + key, head_.keys);
    }
  }

  const Floats d_;
  const AttentionShape& shape_;
  const AttentionInput& input_;
  const AttentionOutput& output_;
  const AttentionTask& task_;
  const AttentionHead head_;
  AttentionScratch& scratch_ = AttentionScratch::of_this_thread();
  int64_t tiles_ = 0;
  QueryTile tile_[kForwardQueries / kLaneUnit];
  int64_t block_keys_ = 0, first_known_ = 0;
  int64_t key_stride_ = 0, value_stride_ = 0;
  bool copies_ = false;
  const float* key_ = nullptr;
  const float* value_ = nullptr;
  float* scores_ = nullptr;  // [kTileKeys] rows of lanes
  float* key_copy_ = nullptr;
  float* value_copy_ = nullptr;
};

void forward_task(const AttentionShape& shape, const AttentionInput& input, const AttentionOutput& output,
                  const AttentionTask& task) {
  Forward(shape, input, output, task).run();
}

}  // namespace
}  // namespace qkv::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qkv::kernels {

HWY_EXPORT(forward_task);

void attention_forward(const AttentionShape& shape, const AttentionInput& input,
                       const AttentionOutput& output) {
  for_attention_tasks(shape, kForwardQueries, false, [&](const AttentionTask& task) {
    HWY_DYNAMIC_DISPATCH(forward_task)(shape, input, output, task);
  });
  count_macs(attention_pairs(shape) * static_cast<uint64_t>(shape.d_k + shape.d_v));
  count_numbers(query_numbers(shape) + key_numbers(shape));
}

}  // namespace qkv::kernels
#endif  // HWY_ONCE
