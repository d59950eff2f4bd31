// Attention, forward and backward. Here, a block has one row of queries (or keys) and a head: for heads that
// are too wide for tiles, weights on request, and gradients of biases. Scores are computed again wherever
// they are needed; a matrix of them is never stored.

#include <algorithm>
#include <vector>

#include "qkv/kernels/cuda/attention.h"

namespace qkv::kernels::cuda {
namespace {

QKV_DEVICE float score(const AttentionShape& s, const AttentionInput& in, const Row& row, int64_t key,
                       float* slope = nullptr) {
  const int64_t q = query_of(s, in, row), k = key_of(s, in, row, key);
  float product = 0;
  for (int64_t c = 0; c < s.d_k; ++c) product += get(in.query, q + c) * get(in.key, k + c);
  return score_of(s, row, key, product, slope);
}

// log(sum_j exp(score_j)), a sink included; -infinity if no key is allowed.
QKV_DEVICE float log_sum_exp(const Thread& thread, const AttentionShape& s, const AttentionInput& in,
                             const Row& row) {
  float largest = -INFINITY;
  double sum = 0;  // of exp(score - largest)
  for (int64_t j = thread.index; j < row.keys; j += thread.count) {
    if (!allowed(s, row, j)) continue;
    const float x = score(s, in, row, j);
    if (x == -INFINITY) continue;
    if (x > largest) {
      sum *= ::expf(largest - x);
      largest = x;
    }
    sum += ::expf(x - largest);
  }
  float all = thread.maximum(largest);
  if (all == -INFINITY) return all;
  if (s.sinks != nullptr && s.sinks[row.head] > all) all = s.sinks[row.head];
  sum = largest == -INFINITY ? 0 : sum * ::expf(largest - all);
  sum = thread.sum(sum);
  if (s.sinks != nullptr) sum += ::expf(s.sinks[row.head] - all);
  return all + static_cast<float>(::log(sum));
}

// The weight of a key before dropout, given the row's log_sum_exp.
QKV_DEVICE float weight(const AttentionShape& s, const AttentionInput& in, const Row& row, int64_t key,
                        float log_sum, float* slope = nullptr) {
  if (log_sum == -INFINITY || !allowed(s, row, key)) return 0;
  return ::expf(score(s, in, row, key, slope) - log_sum);
}

void capture(const Placed& placed, const AttentionInput& in, const AttentionCapture& to) {
  const AttentionShape s = placed.shape;
  const int64_t tokens = placed.query_tokens;
  const Array<int64_t> offsets(to.offsets, to.offsets != nullptr ? s.heads * tokens : 0);
  const int64_t* const begin = to.offsets != nullptr ? offsets.data() : nullptr;
  launch(tokens * s.heads, [=] QKV_DEVICE(const Thread& thread) {
    const Row row = row_of_block(s, thread.block);
    const int64_t number = row.head * tokens + row.query_row;
    const float log_sum = log_sum_exp(thread, s, in, row);
    for (int64_t j = thread.index; begin != nullptr && j < row.keys; j += thread.count) {
      if (to.weights != nullptr) to.weights[begin[number] + j] = weight(s, in, row, j, log_sum);
      if (to.scores != nullptr)
        to.scores[begin[number] + j] = allowed(s, row, j) ? score(s, in, row, j) : -INFINITY;
    }
    // The next largest weight, ties by earlier key, until all are found.
    float last = INFINITY;
    int64_t last_key = -1;
    for (int64_t n = 0; n < to.top; ++n) {
      float best = 0;
      int64_t key = row.keys;
      for (int64_t j = thread.index; j < row.keys; j += thread.count) {
        const float w = weight(s, in, row, j, log_sum);
        if (w > last || (w == last && j <= last_key) || !(w > best)) continue;
        best = w;
        key = j;
      }
      last = thread.maximum(best);
      last_key =
          row.keys - 1 -
          static_cast<int64_t>(thread.maximum(best == last ? static_cast<float>(row.keys - 1 - key) : -1.0f));
      if (thread.index != 0) continue;
      to.top_weights[number * to.top + n] = last;
      to.top_keys[number * to.top + n] = last > 0 ? static_cast<int32_t>(last_key) : -1;
    }
  });
}

}  // namespace

int64_t attention_key_group() { return kTileColumns; }

void attention_forward(const AttentionShape& shape, const AttentionInput& in, const AttentionOutput& to) {
  const Placed placed(shape);
  const AttentionShape s = placed.shape;
  const int64_t tokens = placed.query_tokens;
  if (to.capture.offsets != nullptr || to.capture.top > 0) capture(placed, in, to.capture);
  if (attention_forward_in_tiles(placed, in, to)) return;
  launch(
      tokens * s.heads,
      [=] QKV_DEVICE(const Thread& thread) {
        auto* const weights =
            reinterpret_cast<float*>(thread.shared);  // of as many keys as there are threads
        float* const sums = weights + kThreads;       // [d_v]
        const Row row = row_of_block(s, thread.block);
        const float log_sum = log_sum_exp(thread, s, in, row);
        for (int64_t c = thread.index; c < s.d_v; c += thread.count) sums[c] = 0;
        for (int64_t first = 0; first < row.keys; first += thread.count) {
          const int64_t own = first + thread.index,
                        end = row.keys - first < thread.count ? row.keys - first : thread.count;
          thread.synchronise();
          if (own < row.keys) {
            const float w = weight(s, in, row, own, log_sum);
            weights[thread.index] = w == 0 ? 0 : w * dropped(s, row, own);
          }
          thread.synchronise();
          for (int64_t c = thread.index; c < s.d_v; c += thread.count) {
            for (int64_t j = 0; j < end; ++j) {
              if (weights[j] != 0) sums[c] += weights[j] * get(in.value, value_of(s, in, row, first + j) + c);
            }
          }
        }
        const int64_t output = row.query_row * to.output_stride + row.head * s.d_v;
        for (int64_t c = thread.index; c < s.d_v; c += thread.count) put(to.output, output + c, sums[c]);
        if (to.log_sum_exp != nullptr && thread.index == 0)
          to.log_sum_exp[row.head * tokens + row.query_row] = log_sum;
      },
      static_cast<size_t>(kThreads + s.d_v) * sizeof(float));
}

// The formulas stand in reference/attention_backward.cc; sum_l p_l dp_l = do o.
void attention_backward(const AttentionShape& shape, const AttentionInput& in, Elements output,
                        int64_t output_stride, const float* log_sum_exp, Elements d_output,
                        int64_t d_output_stride, const AttentionGradients& to) {
  const Placed placed(shape);
  const AttentionShape s = placed.shape;
  const int64_t tokens = placed.query_tokens, group = s.key_heads > 0 ? s.heads / s.key_heads : 1;
  const Array<float> mean_array(s.heads * tokens);
  float* const means = mean_array.data();
  launch(tokens * s.heads, [=] QKV_DEVICE(const Thread& thread) {
    const int64_t row = thread.block / s.heads, head = thread.block % s.heads;
    double sum = 0;
    for (int64_t c = thread.index; c < s.d_v; c += thread.count)
      sum += static_cast<double>(get(output, row * output_stride + head * s.d_v + c)) *
             get(d_output, row * d_output_stride + head * s.d_v + c);
    sum = thread.sum(sum);
    if (thread.index == 0) means[head * tokens + row] = static_cast<float>(sum);
  });

  // ds of a query and a key; slope: the derivative of the score by q k.
  struct Gradient {
    float p, d_score, slope;
  };
  const auto gradient = [=] QKV_DEVICE(const Row& row, int64_t key) {
    const int64_t number = row.head * tokens + row.query_row;
    Gradient g{0, 0, 0};
    g.p = weight(s, in, row, key, log_sum_exp[number], &g.slope);
    if (g.p == 0) return g;
    const int64_t v = value_of(s, in, row, key), d = row.query_row * d_output_stride + row.head * s.d_v;
    float dp = 0;
    for (int64_t c = 0; c < s.d_v; ++c) dp += get(d_output, d + c) * get(in.value, v + c);
    g.d_score = g.p * (dp * dropped(s, row, key) - means[number]);
    return g;
  };

  const bool in_tiles =
      attention_backward_in_tiles(placed, in, log_sum_exp, means, d_output, d_output_stride, to);
  if (!in_tiles && to.query != nullptr) {
    launch(
        tokens * s.heads,
        [=] QKV_DEVICE(const Thread& thread) {
          auto* const d_scores = reinterpret_cast<float*>(thread.shared);
          float* const sums = d_scores + kThreads;  // [d_k]
          const Row row = row_of_block(s, thread.block);
          for (int64_t c = thread.index; c < s.d_k; c += thread.count) sums[c] = 0;
          for (int64_t first = 0; first < row.keys; first += thread.count) {
            const int64_t own = first + thread.index,
                          end = row.keys - first < thread.count ? row.keys - first : thread.count;
            thread.synchronise();
            if (own < row.keys) {
              const Gradient g = gradient(row, own);
              d_scores[thread.index] = g.d_score * g.slope;
            }
            thread.synchronise();
            for (int64_t c = thread.index; c < s.d_k; c += thread.count) {
              for (int64_t j = 0; j < end; ++j) {
                if (d_scores[j] != 0) sums[c] += d_scores[j] * get(in.key, key_of(s, in, row, first + j) + c);
              }
            }
          }
          const int64_t dq = row.query_row * to.query_stride + row.head * s.d_k;
          for (int64_t c = thread.index; c < s.d_k; c += thread.count)
            put(to.query, dq + c, sums[c], to.query_accumulate);
        },
        static_cast<size_t>(kThreads + s.d_k) * sizeof(float));
  }

  if (!in_tiles && (to.key != nullptr || to.value != nullptr)) {
    // A block for each key row and key head: the sums over query heads and queries are in order.
    const int64_t key_heads = s.heads / group;
    launch(
        placed.key_tokens * key_heads,
        [=] QKV_DEVICE(const Thread& thread) {
          auto* const of_scores = reinterpret_cast<float*>(thread.shared);
          float* const of_values = of_scores + kThreads;
          float* const d_key = of_values + kThreads;  // [d_k]
          float* const d_value = d_key + s.d_k;       // [d_v]
          const int64_t key_row = thread.block / key_heads, key_head = thread.block % key_heads;
          const int64_t sequence = sequence_of(s.key_offsets, s.sequences, key_row);
          const int64_t key = key_row - s.key_offsets[sequence], first_query = s.query_offsets[sequence];
          const int64_t queries = s.query_offsets[sequence + 1] - first_query, rows = group * queries;
          for (int64_t c = thread.index; c < s.d_k; c += thread.count) d_key[c] = 0;
          for (int64_t c = thread.index; c < s.d_v; c += thread.count) d_value[c] = 0;
          for (int64_t first = 0; first < rows; first += thread.count) {
            const int64_t own = first + thread.index,
                          end = rows - first < thread.count ? rows - first : thread.count;
            thread.synchronise();
            if (own < rows) {
              const Row row =
                  row_of(s, sequence, key_head * group + own / queries, first_query + own % queries);
              const Gradient g = gradient(row, key);
              of_scores[thread.index] = g.d_score * g.slope;
              of_values[thread.index] = g.p == 0 ? 0 : g.p * dropped(s, row, key);
            }
            thread.synchronise();
            for (int64_t j = 0; j < end; ++j) {
              const int64_t n = first + j, head = key_head * group + n / queries,
                            query_row = first_query + n % queries;
              const int64_t q = query_row * in.query_stride + head * s.d_k,
                            d = query_row * d_output_stride + head * s.d_v;
              if (of_scores[j] != 0)
                for (int64_t c = thread.index; c < s.d_k; c += thread.count)
                  d_key[c] += of_scores[j] * get(in.query, q + c);
              if (of_values[j] != 0)
                for (int64_t c = thread.index; c < s.d_v; c += thread.count)
                  d_value[c] += of_values[j] * get(d_output, d + c);
            }
          }
          for (int64_t c = thread.index; to.key != nullptr && c < s.d_k; c += thread.count)
            put(to.key, key_row * to.key_stride + key_head * s.d_k + c, d_key[c], to.key_accumulate);
          for (int64_t c = thread.index; to.value != nullptr && c < s.d_v; c += thread.count)
            put(to.value, key_row * to.value_stride + key_head * s.d_v + c, d_value[c], to.value_accumulate);
        },
        static_cast<size_t>(2 * kThreads + s.d_k + s.d_v) * sizeof(float));
  }

  if (to.bias != nullptr) {
    // An element may belong to many rows, but to one key of a sequence only: each has a thread of one block.
    launch(1, [=] QKV_DEVICE(const Thread& thread) {
      for (int64_t n = 0; n < tokens * s.heads; ++n) {
        const Row row = row_of_block(s, n % tokens * s.heads + n / tokens);
        for (int64_t j = thread.index; j < row.keys; j += thread.count)
          to.bias[bias_index(s.bias, row, j)] += gradient(row, j).d_score;
      }
    });
  }
  if (to.relative != nullptr) {
    // A block for each head and distance.
    int64_t lowest = 0, highest = 0;
    for (int64_t i = 0; i < shape.sequences; ++i) {
      const int64_t queries = shape.query_offsets[i + 1] - shape.query_offsets[i],
                    keys = shape.key_offsets[i + 1] - shape.key_offsets[i];
      const int64_t shift = s.alignment == Alignment::last_key ? keys - queries : 0;
      lowest = std::min(lowest, -(queries - 1 + shift));
      highest = std::max(highest, keys - 1 - shift);
    }
    const int64_t distances = highest - lowest + 1;
    launch(s.heads * distances, [=] QKV_DEVICE(const Thread& thread) {
      const int64_t head = thread.block / distances, away = lowest + thread.block % distances;
      double sum = 0;
      bool any = false;
      for (int64_t t = thread.index; t < tokens; t += thread.count) {
        const Row row = row_of(s, sequence_of(s.query_offsets, s.sequences, t), head, t);
        const int64_t key = away - distance(s, row, 0);
        if (key < 0 || key >= row.keys) continue;
        sum += gradient(row, key).d_score;
        any = true;
      }
      sum = thread.sum(sum);
      any = thread.maximum(any ? 1.0f : 0.0f) > 0;
      if (any && thread.index == 0)
        to.relative[head * s.relative.head_stride + s.relative.zero + away] += static_cast<float>(sum);
    });
  }
  if (to.sinks != nullptr) {
    launch(s.heads, [=] QKV_DEVICE(const Thread& thread) {
      double sum = 0;
      for (int64_t t = thread.index; t < tokens; t += thread.count) {
        const int64_t number = thread.block * tokens + t;
        if (means[number] != 0)
          sum -= static_cast<double>(::expf(s.sinks[thread.block] - log_sum_exp[number])) * means[number];
      }
      sum = thread.sum(sum);
      if (thread.index == 0) to.sinks[thread.block] += static_cast<float>(sum);
    });
  }
}

}  // namespace qkv::kernels::cuda
