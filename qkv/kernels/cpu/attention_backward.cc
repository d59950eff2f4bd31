#include <algorithm>
#include <cstdint>

#include "qkv/kernels/attention.h"
#include "qkv/kernels/counters.h"
#include "qkv/kernels/cpu/attention_tasks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "qkv/kernels/cpu/attention_backward.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "qkv/kernels/cpu/attention_product-inl.h"
#include "qkv/kernels/cpu/attention_tile-inl.h"

// With S = scale Q K^T + bias, P = softmax(S), P' = dropout(P) and O = P' V (Dao et al. 2022, algorithm 4):
//   dV = P'^T dO,  dP = dropout(dO V^T),  dS = P * (dP - D) where D = rowsum(dO * O),
//   dQ = scale dS K,  dK = dS^T (scale Q).
// P is computed again from the scores and their log-sum-exp.

HWY_BEFORE_NAMESPACE();
namespace qkv::kernels::HWY_NAMESPACE {
namespace {

// Floats of keys, values and their gradients that are worked on at a time: half of a megabyte of second
// cache.
constexpr int64_t kBlockFloats = int64_t{1} << 17;

class Backward {
 public:
  Backward(const BackwardArguments& arguments, const AttentionTask& task)
      : a_(arguments), shape_(a_.shape), task_(task), head_(shape_, task) {}

  void run() {
    allocate();
    const auto& g = a_.gradients;
    if (g.query_accumulate == Accumulate::no) {
      float* to = g.query + head_.first_query * g.query_stride + task_.head * shape_.d_k;
      for (int64_t i = 0; i < head_.queries; ++i) std::fill_n(to + i * g.query_stride, shape_.d_k, 0.0f);
    }
    for (int64_t key = 0; key < head_.keys; key += block_keys_) {
      first_key_ = key;
      keys_ = std::min(block_keys_, head_.keys - key);
      begin_keys();
      for_query_tiles(head_.queries, kTileQueries,
                      [&](int64_t first, int64_t count) { advance(first, count); });
      end_keys();
    }
  }

 private:
  void allocate() {
    const int64_t d_k = shape_.d_k, d_v = shape_.d_v, lanes = lanes_of(d_);
    key_width_ = vectors_for(d_, d_k) * lanes;
    value_width_ = vectors_for(d_, d_v) * lanes;
    const int64_t block = std::max<int64_t>(kBlockFloats / (2 * (d_k + d_v)), 1);
    block_keys_ = (block + kTileKeys - 1) / kTileKeys * kTileKeys;
    const int64_t keys = std::min(block_keys_, head_.keys), width = key_width_ + value_width_;
    scratch_.start(keys * (d_k + d_v + width) + kTileQueries * width +
                   kTileStride * (2 * d_k + d_v + 2 * kTileKeys + 2));
    key_ = scratch_.take(keys * d_k);
    value_ = scratch_.take(keys * d_v);
    key_gradient_ = scratch_.take(keys * key_width_);
    value_gradient_ = scratch_.take(keys * value_width_);
    query_rows_ = scratch_.take(kTileQueries * key_width_);
    grad_rows_ = scratch_.take(kTileQueries * value_width_);
    query_lanes_ = scratch_.take(kTileStride * d_k);
    grad_lanes_ = scratch_.take(kTileStride * d_v);
    query_gradient_ = scratch_.take(kTileStride * d_k);
    weights_ = scratch_.take(kTileStride * kTileKeys);
    changes_ = scratch_.take(kTileStride * kTileKeys);
    log_sum_exp_ = scratch_.take(kTileStride);
    delta_ = scratch_.take(kTileStride);
  }

  void begin_keys() {
    const int64_t row = head_.first_key + first_key_, d_k = shape_.d_k, d_v = shape_.d_v;
    const AttentionInput& in = a_.input;
    copy_rows(in.key + row * in.key_stride + task_.head * d_k, in.key_stride, keys_, d_k, key_, d_k);
    copy_rows(in.value + row * in.value_stride + task_.head * d_v, in.value_stride, keys_, d_v, value_, d_v);
    std::fill_n(key_gradient_, keys_ * key_width_, 0.0f);
    std::fill_n(value_gradient_, keys_ * value_width_, 0.0f);
  }

  void end_keys() {
    const auto& g = a_.gradients;
    const int64_t row = head_.first_key + first_key_;
    put(key_gradient_, key_width_, shape_.d_k, g.key_accumulate,
        g.key + row * g.key_stride + task_.head * shape_.d_k, g.key_stride);
    put(value_gradient_, value_width_, shape_.d_v, g.value_accumulate,
        g.value + row * g.value_stride + task_.head * shape_.d_v, g.value_stride);
  }

  void put(const float* from, int64_t from_stride, int64_t cols, Accumulate accumulate, float* to,
           int64_t to_stride) const {
    if (accumulate == Accumulate::no) {
      copy_rows(from, from_stride, keys_, cols, to, to_stride);
      return;
    }
    for (int64_t j = 0; j < keys_; ++j, from += from_stride, to += to_stride) {
      for (int64_t c = 0; c < cols; ++c) to[c] += from[c];
    }
  }

  // The queries [first, first + count) and all keys of the block that they see.
  void advance(int64_t first, int64_t count) {
    const int64_t end = std::min(first_key_ + keys_, head_.key_limit(first + count - 1));
    if (end <= first_key_) return;
    prepare(first, count);
    for (int64_t key = first_key_; key < end; key += kTileKeys) {
      add_tile({first, count, key, std::min(kTileKeys, end - key)});
    }
    const auto& g = a_.gradients;
    transpose<true>(query_gradient_, kTileStride, shape_.d_k, count, shape_.scale,
                    g.query + (head_.first_query + first) * g.query_stride + task_.head * shape_.d_k,
                    g.query_stride);
  }

  void prepare(int64_t first, int64_t count) {
    const int64_t row = head_.first_query + first, d_k = shape_.d_k, d_v = shape_.d_v;
    const float* query = a_.input.query + row * a_.input.query_stride + task_.head * d_k;
    lay_in_lanes(d_, query, a_.input.query_stride, count, d_k, shape_.scale, query_lanes_, kTileStride);
    copy_padded(d_, query, a_.input.query_stride, count, d_k, shape_.scale, query_rows_, key_width_);
    const float* grad = a_.grad_output + row * a_.grad_output_stride + task_.head * d_v;
    const float* output = a_.output + row * a_.output_stride + task_.head * d_v;
    // The factor of the weights that are kept goes to the gradient of the output, which all of them meet.
    const float kept = shape_.dropout.active() ? shape_.dropout.scale() : 1.0f;
    lay_in_lanes(d_, grad, a_.grad_output_stride, count, d_v, kept, grad_lanes_, kTileStride);
    copy_padded(d_, grad, a_.grad_output_stride, count, d_v, kept, grad_rows_, value_width_);
    const float* log_sum_exp = a_.log_sum_exp + task_.head * shape_.query_offsets[shape_.sequences] + row;
    // exp(score - infinity) = 0, for queries that see nothing and for lanes without a query.
    std::fill_n(log_sum_exp_, kTileStride, -kMinusInfinity);
    std::fill_n(delta_, kTileStride, 0.0f);
    for (int64_t i = 0; i < count; ++i) {
      if (log_sum_exp[i] != kMinusInfinity) log_sum_exp_[i] = log_sum_exp[i];
      delta_[i] = dot(grad + i * a_.grad_output_stride, output + i * a_.output_stride, d_v);
    }
    std::fill_n(query_gradient_, kTileStride * d_k, 0.0f);
  }

  float dot(const float* x, const float* y, int64_t count) const {
    auto sum = hn::Zero(d_);
    for_vectors(d_, count, [&](auto part, int64_t i) HWY_ATTR {
      sum = hn::MulAdd(load(d_, x + i, part), load(d_, y + i, part), sum);
    });
    return hn::GetLane(hn::SumOfLanes(d_, sum));
  }

  void add_tile(const ScoreTile& tile) {
    const int64_t vectors = vectors_for(d_, tile.queries), offset = tile.key - first_key_;
    const float* key = key_ + offset * shape_.d_k;
    const float* value = value_ + offset * shape_.d_v;
    multiply<Start::zero>({key, shape_.d_k, 1}, tile.keys, shape_.d_k, query_lanes_, kTileStride, weights_,
                          kTileStride, vectors);
    mask_scores(d_, shape_, task_, head_, tile, weights_);
    multiply<Start::zero>({value, shape_.d_v, 1}, tile.keys, shape_.d_v, grad_lanes_, kTileStride, changes_,
                          kTileStride, vectors);
    find_changes(tile);
    if (a_.gradients.bias != nullptr) add_bias_gradient(tile);
    multiply<Start::add>({key, 1, shape_.d_k}, shape_.d_k, tile.keys, changes_, kTileStride, query_gradient_,
                         kTileStride, vectors);
    // Queries before the first key of the tile see nothing of it.
    const int64_t unseen = head_.causal ? tile.key - (head_.keys - head_.queries) - tile.query : 0;
    const int64_t from = std::clamp<int64_t>(unseen, 0, tile.queries), seeing = tile.queries - from;
    multiply<Start::add>({weights_ + from, kTileStride, 1}, tile.keys, seeing,
                         grad_rows_ + from * value_width_, value_width_,
                         value_gradient_ + offset * value_width_, value_width_, value_width_ / lanes_of(d_));
    multiply<Start::add>({changes_ + from, kTileStride, 1}, tile.keys, seeing,
                         query_rows_ + from * key_width_, key_width_, key_gradient_ + offset * key_width_,
                         key_width_, key_width_ / lanes_of(d_));
  }

  // Scores and dP become the dropped weights and dS.
  void find_changes(const ScoreTile& tile) const {
    const auto change = [&](int64_t place, FloatVector shift, FloatVector delta, auto kept) HWY_ATTR {
      const auto p = exponential(d_, hn::Sub(hn::Load(d_, weights_ + place), shift));
      const auto dp = kept(hn::Load(d_, changes_ + place));
      hn::Store(hn::Mul(p, hn::Sub(dp, delta)), d_, changes_ + place);
      hn::Store(kept(p), d_, weights_ + place);
    };
    if (shape_.dropout.active()) {
      for_kept(d_, shape_.dropout, task_.head, head_.first_query, tile,
               [&](int64_t place, auto mask) HWY_ATTR {
                 const int64_t lane = place % kTileStride;
                 change(place, hn::Load(d_, log_sum_exp_ + lane), hn::Load(d_, delta_ + lane),
                        [&](FloatVector v) HWY_ATTR { return hn::IfThenElseZero(mask, v); });
               });
      return;
    }
    for (int64_t lane = 0; lane < tile.queries; lane += lanes_of(d_)) {
      const auto shift = hn::Load(d_, log_sum_exp_ + lane), delta = hn::Load(d_, delta_ + lane);
      for (int64_t j = 0; j < tile.keys; ++j) {
        change(j * kTileStride + lane, shift, delta, [](FloatVector v) HWY_ATTR { return v; });
      }
    }
  }

  void add_bias_gradient(const ScoreTile& tile) const {
    const ScoreBias& bias = shape_.bias;
    float* to = a_.gradients.bias + task_.sequence * bias.batch_stride + task_.head * bias.head_stride +
                tile.query * bias.query_stride + tile.key;
    for (int64_t i = 0; i < tile.queries; ++i, to += bias.query_stride) {
      for (int64_t j = 0; j < tile.keys; ++j) to[j] += changes_[j * kTileStride + i];
    }
  }

  const Floats d_;
  const BackwardArguments& a_;
  const AttentionShape& shape_;
  const AttentionTask& task_;
  const AttentionHead head_;
  AttentionScratch& scratch_ = AttentionScratch::of_this_thread();
  int64_t key_width_ = 0, value_width_ = 0;                    // d_k and d_v in whole vectors
  int64_t block_keys_ = 0, first_key_ = 0, keys_ = 0;          // the keys at hand
  float *key_ = nullptr, *value_ = nullptr;                    // their rows
  float *key_gradient_ = nullptr, *value_gradient_ = nullptr;  // their rows, widened
  float *query_rows_ = nullptr, *grad_rows_ = nullptr;         // a tile's rows, scaled and widened
  float *query_lanes_ = nullptr, *grad_lanes_ = nullptr;       // the same with the queries in the lanes
  float* query_gradient_ = nullptr;                            // [d_k] rows of lanes
  float *weights_ = nullptr, *changes_ = nullptr;              // P' and dS, [keys] rows of lanes
  float *log_sum_exp_ = nullptr, *delta_ = nullptr;            // lanes
};

void backward_task(const BackwardArguments& arguments, const AttentionTask& task) {
  Backward(arguments, task).run();
}

}  // namespace
}  // namespace qkv::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qkv::kernels {

HWY_EXPORT(backward_task);

void attention_backward(const AttentionShape& shape, const AttentionInput& input, const float* output,
                        int64_t output_stride, const float* log_sum_exp, const float* grad_output,
                        int64_t grad_output_stride, const AttentionGradients& gradients) {
  const BackwardArguments arguments{
      shape, input, output, output_stride, log_sum_exp, grad_output, grad_output_stride, gradients};
  // Sequences or heads that share a bias add to the same gradient, in their order.
  const bool shared_bias =
      gradients.bias != nullptr && ((shape.bias.batch_stride == 0 && shape.sequences > 1) ||
                                    (shape.bias.head_stride == 0 && shape.heads > 1));
  for_attention_tasks(shape, 0, shared_bias, [&](const AttentionTask& task) {
    HWY_DYNAMIC_DISPATCH(backward_task)(arguments, task);
  });
  // dV, dP, dQ and dK; that the scores are computed again is this kernel's choice.
  count_macs(attention_pairs(shape) * static_cast<uint64_t>(2 * (shape.d_k + shape.d_v)));
  // All that is read has a gradient that is written, and the output's gradient is read.
  count_numbers(2 * (query_numbers(shape) + key_numbers(shape)));
}

}  // namespace qkv::kernels
#endif  // HWY_ONCE
