#include <algorithm>
#include <cstdint>

#include "qkv/base/parallel.h"
#include "qkv/kernels/cpu/attention/attention_tasks.h"
#include "qkv/kernels/cpu/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "qkv/kernels/cpu/attention/attention_backward.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "qkv/kernels/cpu/attention/attention_product-inl.h"
#include "qkv/kernels/cpu/attention/attention_tile-inl.h"

// With S = scale Q K^T + bias (or softcap tanh(scale Q K^T / softcap) + bias), P = softmax(S), P' =
// dropout(P) and O = P' V (Dao et al. 2022, algorithm 4):
//   dV = P'^T dO,  dP = dropout(dO V^T),  dS = P * (dP - D) where D = rowsum(dO * O),
//   dQ = scale dS K,  dK = dS^T (scale Q); with a softcap, dS is multiplied by the tanh's derivative first.
// P is recomputed from the scores and their log-sum-exp.

HWY_BEFORE_NAMESPACE();
namespace qkv::kernels::HWY_NAMESPACE {
namespace {

// Floats of keys, values and their gradients processed at a time: half a megabyte of L2 cache.
constexpr int64_t kBlockFloats = int64_t{1} << 17;

float dot(Floats d, const float* x, const float* y, int64_t count) {
  auto sum = hn::Zero(d);
  for_vectors(d, count, [&](auto part, int64_t i) HWY_ATTR {
    sum = hn::MulAdd(load(d, x + i, part), load(d, y + i, part), sum);
  });
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

// Scores have queries as rows and keys as lanes, so S = Q K^T and dP = dO V^T need transposed keys and
// values; the other three products use rows directly.
class Backward {
 public:
  explicit Backward(const BackwardArguments& arguments)
      : a_(arguments), shape_(a_.shape), dropped_(shape_.dropout.active()) {
    const int64_t d_k = shape_.d_k, d_v = shape_.d_v, lanes = lanes_of(d_);
    key_width_ = vectors_for(d_, d_k) * lanes;
    value_width_ = vectors_for(d_, d_v) * lanes;
    const int64_t key_floats = d_k + d_v + 2 * key_width_ + value_width_;
    block_keys_ = std::max(kBlockFloats / key_floats / kTileKeys * kTileKeys, kTileKeys);
    constexpr int64_t kScores = kTileQueries * kTileKeys;
    scratch_.start(block_keys_ * key_floats + kTileQueries * (2 * key_width_ + value_width_ + 2) +
                   3 * kScores + kDropoutFloats);
    key_lanes_ = scratch_.take(block_keys_ * d_k);
    value_lanes_ = scratch_.take(block_keys_ * d_v);
    key_rows_ = scratch_.take(block_keys_ * key_width_);
    key_gradient_ = scratch_.take(block_keys_ * key_width_);
    value_gradient_ = scratch_.take(block_keys_ * value_width_);
    query_rows_ = scratch_.take(kTileQueries * key_width_);
    query_gradient_ = scratch_.take(kTileQueries * key_width_);
    grad_rows_ = scratch_.take(kTileQueries * value_width_);
    log_sum_exp_ = scratch_.take(kTileQueries);
    delta_ = scratch_.take(kTileQueries);
    weights_ = scratch_.take(kScores);
    dscores_ = scratch_.take(kScores);
    slopes_ = scratch_.take(kScores);
    random_.bits = reinterpret_cast<uint16_t*>(scratch_.take(kDropoutFloats));
  }

  // Prefetches the next task, if it is short; advance() prefetches the tiles within a task.
  void prefetch(const AttentionTask& next) {
    const AttentionHead head(shape_, next.sequence);
    const int64_t keys = head.keys <= kTileQueries ? head.keys : 0, d_k = shape_.d_k, d_v = shape_.d_v;
    const F32Input& in = a_.input;
    const auto& g = a_.gradients;
    ahead_ = {
        rows_ahead(head, next.head * shape_.query_heads_per_key(), 0),
        {in.key + head.first_key * in.key_stride + next.head * d_k, in.key_stride, keys, d_k},
        {in.value + head.first_key * in.value_stride + next.head * d_v, in.value_stride, keys, d_v},
        gradient_ahead(a_.d_key, head.first_key * g.key_stride + next.head * d_k, g.key_stride, keys, d_k),
        gradient_ahead(a_.d_value, head.first_key * g.value_stride + next.head * d_v, g.value_stride, keys,
                       d_v)};
  }

  void run(const AttentionTask& task) {
    task_ = task;
    head_ = AttentionHead(shape_, task.sequence);
    const int64_t group = shape_.query_heads_per_key(), end = task.first + task.count;
    for (first_key_ = task.first; first_key_ < std::max(end, task.first + 1); first_key_ += block_keys_) {
      keys_ = std::min(block_keys_, end - first_key_);
      begin_keys();
      for (query_head_ = task.head * group; query_head_ < (task.head + 1) * group; ++query_head_) {
        for_even_parts(head_.queries, kTileQueries,
                       [&](int64_t first, int64_t count) HWY_ATTR { advance(first, count); });
      }
      end_keys();
    }
  }

 private:
  static constexpr int64_t kDropoutFloats = kTileQueries * kTileKeys / 2 + 64;

  struct QueriesAhead {
    RowsAhead query, grad, output, gradient;
  };

  // None of a gradient that is not wanted.
  static RowsAhead gradient_ahead(const float* gradient, int64_t offset, int64_t stride, int64_t rows,
                                  int64_t cols) {
    if (gradient == nullptr) return {};
    return {gradient + offset, stride, rows, cols};
  }

  // The rows of a tile that begins at query `first`.
  QueriesAhead rows_ahead(const AttentionHead& head, int64_t query_head, int64_t first) const {
    const int64_t row = head.first_query + first, rows = std::min(head.queries - first, kTileQueries);
    const int64_t d_k = shape_.d_k, d_v = shape_.d_v;
    const auto& g = a_.gradients;
    return {
        {a_.input.query + row * a_.input.query_stride + query_head * d_k, a_.input.query_stride, rows, d_k},
        {a_.grad_output + row * a_.grad_output_stride + query_head * d_v, a_.grad_output_stride, rows, d_v},
        {a_.output + row * a_.output_stride + query_head * d_v, a_.output_stride, rows, d_v},
        gradient_ahead(a_.d_query, row * g.query_stride + query_head * d_k, g.query_stride, rows, d_k)};
  }

  void begin_keys() {
    const int64_t d_k = shape_.d_k, d_v = shape_.d_v;
    const F32Input& in = a_.input;
    for (int64_t key = 0; key < keys_; key += kTileKeys) {
      const int64_t keys = std::min(kTileKeys, keys_ - key), row = head_.first_key + first_key_ + key;
      const float* from = in.key + row * in.key_stride + task_.head * d_k;
      pack_transposed(from, in.key_stride, keys, d_k, shape_.scale, key_lanes_ + key * d_k, padded(keys));
      copy_padded(d_, from, in.key_stride, keys, d_k, shape_.scale, key_rows_ + key * key_width_, key_width_);
      pack_transposed(in.value + row * in.value_stride + task_.head * d_v, in.value_stride, keys, d_v, 1.0f,
                      value_lanes_ + key * d_v, padded(keys));
    }
    summed_keys_ = 0;
  }

  void end_keys() {
    const auto& g = a_.gradients;
    const int64_t row = head_.first_key + first_key_, unseen = keys_ - summed_keys_;
    std::fill_n(key_gradient_ + summed_keys_ * key_width_, unseen * key_width_, 0.0f);
    std::fill_n(value_gradient_ + summed_keys_ * value_width_, unseen * value_width_, 0.0f);
    for (int64_t j = 0; j < keys_; ++j) {
      ahead_.key_gradient.fetch(j);
      ahead_.value_gradient.fetch(j);
    }
    if (a_.d_key != nullptr) {
      put(key_gradient_, key_width_, keys_, shape_.d_k, shape_.scale, g.key_accumulate,
          a_.d_key + row * g.key_stride + task_.head * shape_.d_k, g.key_stride);
    }
    if (a_.d_value != nullptr) {
      put(value_gradient_, value_width_, keys_, shape_.d_v, 1.0f, g.value_accumulate,
          a_.d_value + row * g.value_stride + task_.head * shape_.d_v, g.value_stride);
    }
  }

  void put(const float* from, int64_t from_stride, int64_t rows, int64_t cols, float factor,
           Accumulate accumulate, float* to, int64_t to_stride) const {
    const auto factors = hn::Set(d_, factor);
    for (int64_t j = 0; j < rows; ++j, from += from_stride, to += to_stride) {
      if (accumulate == Accumulate::yes) {
        put_row<true>(d_, from, cols, factors, to);
      } else {
        put_row<false>(d_, from, cols, factors, to);
      }
    }
  }

  // The queries [first, first + count) and all visible keys of the block.
  void advance(int64_t first, int64_t count) {
    const auto& g = a_.gradients;
    const bool wanted = a_.d_query != nullptr, apart = task_.partial != nullptr;
    const int64_t in_group = query_head_ - task_.head * shape_.query_heads_per_key();
    float* const to =
        !wanted ? nullptr
        : apart ? task_.partial + (in_group * head_.queries + first) * shape_.d_k
                : a_.d_query + (head_.first_query + first) * g.query_stride + query_head_ * shape_.d_k;
    const int64_t stride = apart ? shape_.d_k : g.query_stride;
    // The first block of keys writes, unless the gradient is accumulated.
    const Accumulate start = apart ? Accumulate::no : g.query_accumulate;
    const Accumulate accumulate = first_key_ > task_.first ? Accumulate::yes : start;
    const int64_t end = std::min(first_key_ + keys_, head_.key_limit(first + count - 1));
    if (end <= first_key_) {
      if (accumulate == Accumulate::yes || !wanted) return;
      for (int64_t i = 0; i < count; ++i) std::fill_n(to + i * stride, shape_.d_k, 0.0f);
      return;
    }
    ahead_here_ =
        first + count < head_.queries ? rows_ahead(head_, query_head_, first + count) : ahead_.queries;
    prepare(first, count);
    for (int64_t key = first_key_; key < end; key += kTileKeys) {
      add_tile({first, count, key, std::min(kTileKeys, first_key_ + keys_ - key)});
    }
    if (wanted) put(query_gradient_, key_width_, count, shape_.d_k, 1.0f, accumulate, to, stride);
  }

  void prepare(int64_t first, int64_t count) {
    const int64_t row = head_.first_query + first, d_k = shape_.d_k, d_v = shape_.d_v;
    const F32Input& in = a_.input;
    copy_padded(d_, in.query + row * in.query_stride + query_head_ * d_k, in.query_stride, count, d_k, 1.0f,
                query_rows_, key_width_);
    const float* grad = a_.grad_output + row * a_.grad_output_stride + query_head_ * d_v;
    const float* output = a_.output + row * a_.output_stride + query_head_ * d_v;
    // Dropout's scale is applied to the output's gradient, which is a factor of all its uses.
    copy_padded(d_, grad, a_.grad_output_stride, count, d_v, dropped_ ? shape_.dropout.scale() : 1.0f,
                grad_rows_, value_width_);
    const float* log_sum_exp = a_.log_sum_exp + query_head_ * shape_.query_offsets[shape_.sequences] + row;
    for (int64_t i = 0; i < count; ++i) {
      // exp(score - infinity) = 0, for queries without visible keys.
      ahead_.key.fetch(first + i);
      log_sum_exp_[i] = log_sum_exp[i] != kMinusInfinity ? log_sum_exp[i] : -kMinusInfinity;
      delta_[i] = dot(d_, grad + i * a_.grad_output_stride, output + i * a_.output_stride, d_v);
    }
    const int64_t unseeing = head_.first_query_of(first_key_, first) - first;
    std::fill_n(query_gradient_, unseeing * key_width_, 0.0f);
  }

  void add_tile(const ScoreTile& tile) {
    const int64_t offset = tile.key - first_key_, lanes = lanes_of(d_);
    for_causal_groups(head_, tile, [&](const ScoreTile& group) HWY_ATTR {
      const int64_t row = group.query - tile.query;
      float* const scores = weights_ + row * kTileKeys;
      Product product{.a = {query_rows_ + row * key_width_, key_width_, 1},
                      .rows = group.queries,
                      .b = key_lanes_ + offset * shape_.d_k,
                      .b_stride = padded(tile.keys),
                      .c = scores,
                      .c_stride = kTileKeys,
                      .vectors = vectors_for(d_, padded(group.keys))};
      multiply(product, [&](int64_t, int64_t) { return Depth{0, shape_.d_k}; });
      if (shape_.softcap > 0) cap_scores(d_, shape_.softcap, group, scores, slopes_ + row * kTileKeys);
      mask_scores(d_, shape_, task_.sequence, query_head_, head_, group, scores);
      product.a = {grad_rows_ + row * value_width_, value_width_, 1};
      product.b = value_lanes_ + offset * shape_.d_v;
      product.c = dscores_ + row * kTileKeys;
      multiply(product, [&](int64_t, int64_t) { return Depth{0, shape_.d_v}; });
      if (dropped_) {
        draw_bits(shape_.dropout, query_head_, head_.first_query, group, random_);
        softmax_backward<true>(tile, group);
      } else {
        softmax_backward<false>(tile, group);
      }
    });
    if (a_.gradients.bias != nullptr) add_bias_gradient(tile);
    if (task_.distances != nullptr) add_distances(tile);
    if (shape_.softcap > 0) multiply_by_slopes(tile);

    const int64_t from = head_.first_query_of(tile.key, tile.query), row = from - tile.query;
    const int64_t queries = tile.queries - row;
    if (a_.d_query != nullptr) {
      multiply({.a = {dscores_ + row * kTileKeys, kTileKeys, 1},
                .rows = queries,
                .b = key_rows_ + offset * key_width_,
                .b_stride = key_width_,
                .c = query_gradient_ + row * key_width_,
                .c_stride = key_width_,
                .vectors = key_width_ / lanes,
                .start = tile.key == first_key_ ? Start::zero : Start::add},
               [&](int64_t first, int64_t count) {
                 return Depth{0, seen_keys(head_, tile, from + first + count - 1)};
               });
    }
    // Keys as rows: queries before the first key of a block see none of it.
    const auto seeing = [&](int64_t first, int64_t) {
      return Depth{std::min(head_.first_query_of(tile.key + first, tile.query) - tile.query, tile.queries),
                   tile.queries};
    };
    Product product{.a = {weights_, 1, kTileKeys},
                    .rows = std::min(tile.keys, seen_keys(head_, tile, tile.query + tile.queries - 1)),
                    .b = grad_rows_,
                    .b_stride = value_width_,
                    .c = value_gradient_ + offset * value_width_,
                    .c_stride = value_width_,
                    .vectors = value_width_ / lanes};
    const int64_t rows = product.rows, summed = std::clamp<int64_t>(summed_keys_ - offset, 0, rows);
    if (a_.d_value != nullptr) sum_keys(product, summed, seeing);
    product.a.data = dscores_;
    product.b = query_rows_;
    product.b_stride = product.c_stride = key_width_;
    product.c = key_gradient_ + offset * key_width_;
    product.vectors = key_width_ / lanes;
    if (a_.d_key != nullptr) sum_keys(product, summed, seeing);
    summed_keys_ = std::max(summed_keys_, offset + rows);
  }

  // Adds to the first `summed` rows and writes the others, which no earlier query has seen.
  template <class DepthOf>
  void sum_keys(Product product, int64_t summed, const DepthOf& depth_of) const {
    const int64_t rows = product.rows;
    product.start = Start::add;
    product.rows = summed;
    multiply(product, depth_of);
    product.start = Start::zero;
    product.rows = rows - summed;
    product.a.data += summed * product.a.row;
    product.c += summed * product.c_stride;
    multiply(product, [&](int64_t first, int64_t count) { return depth_of(first + summed, count); });
  }

  // Converts scores and dP to the dropped weights and dS.
  template <bool kDropout>
  void softmax_backward(const ScoreTile& tile, const ScoreTile& group) {
    const int64_t lanes = lanes_of(d_), width = padded(tile.keys), row = group.query - tile.query;
    float* HWY_RESTRICT weights = weights_ + row * kTileKeys;
    float* HWY_RESTRICT changes = dscores_ + row * kTileKeys;
    const uint16_t* bits = random_.bits;
    const bool fetches = tile.key == first_key_;
    for (int64_t i = 0; i < group.queries; ++i) {
      if (fetches) {
        ahead_.value.fetch(group.query + i);
        ahead_here_.query.fetch(row + i);
        ahead_here_.grad.fetch(row + i);
        ahead_here_.output.fetch(row + i);
        ahead_here_.gradient.fetch(row + i);
      }
      const auto shift = hn::Set(d_, log_sum_exp_[row + i]), delta = hn::Set(d_, delta_[row + i]);
      const int64_t seen = seen_keys(head_, group, group.query + i);
      for (int64_t j = 0; j < seen; j += lanes) {
        const auto p = exponential_of_difference(d_, hn::Sub(hn::Load(d_, weights + j), shift));
        auto dp = hn::Load(d_, changes + j), dropped = p;
        if constexpr (kDropout) {
          const auto kept = kept_lanes(d_, shape_.dropout, bits + j);
          dp = hn::IfThenElseZero(kept, dp);
          dropped = hn::IfThenElseZero(kept, p);
        }
        hn::Store(hn::Mul(p, hn::Sub(dp, delta)), d_, changes + j);
        hn::Store(dropped, d_, weights + j);
      }
      if (const int64_t full = seen / lanes * lanes; full < seen) {
        const auto mask = hn::FirstN(d_, static_cast<size_t>(seen - full));
        hn::Store(hn::IfThenElseZero(mask, hn::Load(d_, weights + full)), d_, weights + full);
        hn::Store(hn::IfThenElseZero(mask, hn::Load(d_, changes + full)), d_, changes + full);
      }
      clear_unseen(d_, seen, width, weights);
      clear_unseen(d_, seen, width, changes);
      weights += kTileKeys;
      changes += kTileKeys;
      if constexpr (kDropout) bits += random_.stride;
    }
  }

  // Converts the gradients of capped scores to those of the scores.
  void multiply_by_slopes(const ScoreTile& tile) const {
    for (int64_t i = 0; i < tile.queries; ++i) {
      const int64_t at = i * kTileKeys;
      for_vectors(d_, seen_keys(head_, tile, tile.query + i), [&](auto part, int64_t j) HWY_ATTR {
        const auto product = hn::Mul(load(d_, dscores_ + at + j, part), load(d_, slopes_ + at + j, part));
        store(d_, product, dscores_ + at + j, part);
      });
    }
  }

  void add_bias_gradient(const ScoreTile& tile) const {
    const ScoreBias& bias = shape_.bias;
    float* to = a_.gradients.bias + task_.sequence * bias.batch_stride + query_head_ * bias.head_stride +
                tile.query * bias.query_stride + tile.key;
    for (int64_t i = 0; i < tile.queries; ++i, to += bias.query_stride) {
      const int64_t seen = seen_keys(head_, tile, tile.query + i);
      for (int64_t j = 0; j < seen; ++j) to[j] += dscores_[i * kTileKeys + j];
    }
  }

  void add_distances(const ScoreTile& tile) const {
    const int64_t in_group = query_head_ - task_.head * shape_.query_heads_per_key();
    float* to = task_.distances + in_group * (head_.queries + task_.count) + tile.key - task_.first +
                head_.queries - 1 - tile.query;
    for (int64_t i = 0; i < tile.queries; ++i, --to) {
      const float* change = dscores_ + i * kTileKeys;
      for_vectors(d_, seen_keys(head_, tile, tile.query + i), [&](auto part, int64_t j) HWY_ATTR {
        store(d_, hn::Add(load(d_, to + j, part), load(d_, change + j, part)), to + j, part);
      });
    }
  }

  const Floats d_;
  const BackwardArguments& a_;
  const AttentionShape& shape_;
  const bool dropped_;
  AttentionScratch& scratch_ = AttentionScratch::of_this_thread();
  AttentionTask task_;
  AttentionHead head_;
  struct {
    QueriesAhead queries;
    RowsAhead key, value, key_gradient, value_gradient;
  } ahead_;                  // of the next task
  QueriesAhead ahead_here_;  // the next tile's, or the next task's
  int64_t query_head_ = 0;
  int64_t key_width_ = 0, value_width_ = 0;  // d_k and d_v rounded up to whole vectors
  // A block of keys:
  int64_t block_keys_ = 0, first_key_ = 0, keys_ = 0;
  int64_t summed_keys_ = 0;  // keys that have a gradient already
  float *key_lanes_ = nullptr,
        *value_lanes_ = nullptr;                               // by tile: [d] rows of lanes; keys are scaled
  float* key_rows_ = nullptr;                                  // scaled and padded
  float *key_gradient_ = nullptr, *value_gradient_ = nullptr;  // rows, padded
  // A tile of queries:
  float *query_rows_ = nullptr,
        *grad_rows_ = nullptr;  // widened; those of the output's gradient scaled
  float* query_gradient_ = nullptr;
  float *log_sum_exp_ = nullptr, *delta_ = nullptr;
  float *weights_ = nullptr,
        *dscores_ = nullptr;  // P' and dS: [kTileQueries, kTileKeys]
  float* slopes_ = nullptr;   // of the softcap, likewise
  DropoutBits random_{};      // of a group
};

// A sink has the weight p = exp(sink - log_sum_exp) and no value: d sink = sum over rows of p (0 - D), in the
// order of the rows.
void add_sink_gradients(const BackwardArguments& a, int64_t begin, int64_t end) {
  const Floats d;
  const int64_t rows = a.shape.query_offsets[a.shape.sequences], d_v = a.shape.d_v;
  for (int64_t head = begin; head < end; ++head) {
    const float* log_sum_exp = a.log_sum_exp + head * rows;
    double sum = 0;
    for (int64_t i = 0; i < rows; ++i) {
      if (log_sum_exp[i] == kMinusInfinity) continue;
      const float below = std::min(a.shape.sinks[head] - log_sum_exp[i], 0.0f);
      const float weight = hn::GetLane(exponential_of_difference(d, hn::Set(d, below)));
      sum -= double{weight} * double{dot(d, a.grad_output + i * a.grad_output_stride + head * d_v,
                                         a.output + i * a.output_stride + head * d_v, d_v)};
    }
    a.gradients.sinks[head] += static_cast<float>(sum);
  }
}

void backward_tasks(const BackwardArguments& arguments, const AttentionTask* tasks, size_t count) {
  Backward backward(arguments);
  for (size_t t = 0; t < count; ++t) {
    backward.prefetch(tasks[t + 1]);
    backward.run(tasks[t]);
  }
}

}  // namespace
}  // namespace qkv::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qkv::kernels::cpu {

HWY_EXPORT(backward_tasks);
HWY_EXPORT(add_sink_gradients);

void attention_backward(const AttentionShape& shape, const AttentionInput& input, Elements output,
                        int64_t output_stride, const float* log_sum_exp, Elements grad_output,
                        int64_t grad_output_stride, const AttentionGradients& gradients) {
  const BackwardArguments arguments{.shape = shape,
                                    .input = F32Input(input),
                                    .output = output.f32(),
                                    .output_stride = output_stride,
                                    .log_sum_exp = log_sum_exp,
                                    .grad_output = grad_output.f32(),
                                    .grad_output_stride = grad_output_stride,
                                    .gradients = gradients,
                                    .d_query = gradients.query.f32(),
                                    .d_key = gradients.key.f32(),
                                    .d_value = gradients.value.f32()};
  // Sequences or heads that share a bias add to the same gradient, in order.
  const bool shared_bias =
      gradients.bias != nullptr && ((shape.bias.batch_stride == 0 && shape.sequences > 1) ||
                                    (shape.bias.head_stride == 0 && shape.heads > 1));
  AttentionPlan& plan = AttentionPlan::of_this_thread();
  plan.backward(shape, gradients.relative != nullptr);
  const auto body = [&](const AttentionTask* tasks, size_t count) {
    HWY_DYNAMIC_DISPATCH(backward_tasks)(arguments, tasks, count);
  };
  if (shared_bias) {
    plan.run_on_one_thread(body);
  } else {
    plan.run(body);
  }
  if (arguments.d_query != nullptr) plan.add_partials(shape, arguments.d_query, gradients.query_stride);
  if (gradients.relative != nullptr) plan.add_distances(shape, gradients.relative);
  if (gradients.sinks != nullptr) {
    parallel_for(shape.heads, 1, [&](int64_t begin, int64_t end) {
      HWY_DYNAMIC_DISPATCH(add_sink_gradients)(arguments, begin, end);
    });
  }
}

}  // namespace qkv::kernels::cpu
#endif  // HWY_ONCE
