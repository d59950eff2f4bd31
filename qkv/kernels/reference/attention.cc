#include "qkv/kernels/reference/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace qkv::kernels::reference {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

// Calls body(row) for every query row of every head, in the order in which weights are laid out.
struct Row {
  int64_t sequence, head, query;  // query within the sequence
  int64_t key_head;
  int64_t query_row, first_key_row;  // in the batch
  int64_t queries, keys;
  size_t weights;  // where the row's weights begin
};

template <class Body>
void for_rows(const AttentionShape& shape, const Body& body) {
  size_t weights = 0;
  for (int64_t s = 0; s < shape.sequences; ++s) {
    const int64_t first_query = shape.query_offsets[s], queries = shape.query_offsets[s + 1] - first_query;
    const int64_t first_key = shape.key_offsets[s], keys = shape.key_offsets[s + 1] - first_key;
    for (int64_t h = 0; h < shape.heads; ++h) {
      for (int64_t i = 0; i < queries; ++i) {
        body(Row{s, h, i, h / shape.query_heads_per_key(), first_query + i, first_key, queries, keys,
                 weights});
        weights += static_cast<size_t>(keys);
      }
    }
  }
}

double score(const AttentionShape& shape, const AttentionInput& input, const Row& row, int64_t j) {
  if (shape.causal && j > row.query + row.keys - row.queries) return kMinusInfinity;
  const KeepMask& keep = shape.keep;
  if (keep.data != nullptr && keep.data[row.sequence * keep.batch_stride + row.head * keep.head_stride +
                                        row.query * keep.query_stride + j] == 0) {
    return kMinusInfinity;
  }
  const float* query = input.query + row.query_row * input.query_stride + row.head * shape.d_k;
  const float* key = input.key + (row.first_key_row + j) * input.key_stride + row.key_head * shape.d_k;
  double sum = 0;
  for (int64_t c = 0; c < shape.d_k; ++c) sum += double{query[c]} * double{key[c]};
  sum *= double{shape.scale};
  if (shape.alibi_slopes != nullptr) {
    const int64_t distance = row.query + row.keys - row.queries - j;
    sum -= double{shape.alibi_slopes[row.head]} * static_cast<double>(std::abs(distance));
  }
  const RelativeBias& relative = shape.relative;
  if (relative.data != nullptr) {
    const int64_t distance = j - (row.query + row.keys - row.queries);
    sum += double{relative.data[row.head * relative.head_stride + relative.zero + distance]};
  }
  const ScoreBias& bias = shape.bias;
  if (bias.data == nullptr) return sum;
  return sum + double{bias.data[row.sequence * bias.batch_stride + row.head * bias.head_stride +
                                row.query * bias.query_stride + j]};
}

// softmax of one row into weights[0 .. keys); returns its log-sum-exp.
double softmax(const AttentionShape& shape, const AttentionInput& input, const Row& row, double* weights) {
  double largest = kMinusInfinity, sum = 0;
  for (int64_t j = 0; j < row.keys; ++j) {
    weights[j] = score(shape, input, row, j);
    largest = std::max(largest, weights[j]);
  }
  if (largest == kMinusInfinity) {
    std::fill_n(weights, row.keys, 0.0);
    return kMinusInfinity;
  }
  for (int64_t j = 0; j < row.keys; ++j) sum += weights[j] = std::exp(weights[j] - largest);
  for (int64_t j = 0; j < row.keys; ++j) weights[j] /= sum;
  return largest + std::log(sum);
}

// By what dropout multiplies the weight of key j.
double dropout_factor(const AttentionShape& shape, const Row& row, int64_t j) {
  if (!shape.dropout.active()) return 1;
  const uint32_t column = static_cast<uint32_t>(row.head * (int64_t{1} << 22) + j);
  return shape.dropout.keeps(static_cast<uint32_t>(row.query_row), column) ? double{shape.dropout.scale()}
                                                                           : 0.0;
}

size_t index(int64_t row, int64_t width, int64_t column) { return static_cast<size_t>(row * width + column); }

size_t weight_count(const AttentionShape& shape) {
  size_t count = 0;
  for_rows(shape, [&](const Row& row) { count += static_cast<size_t>(row.keys); });
  return count;
}

}  // namespace

AttentionForward attention_forward(const AttentionShape& shape, const AttentionInput& input) {
  const int64_t tokens = shape.query_offsets[shape.sequences], width = shape.heads * shape.d_v;
  AttentionForward result;
  result.output.resize(index(tokens, width, 0));
  result.log_sum_exp.resize(index(tokens, shape.heads, 0));
  result.weights.resize(weight_count(shape));
  for_rows(shape, [&](const Row& row) {
    double* weights = result.weights.data() + row.weights;
    result.log_sum_exp[index(row.head, tokens, row.query_row)] = softmax(shape, input, row, weights);
    for (int64_t j = 0; j < row.keys; ++j) {
      const float* value =
          input.value + (row.first_key_row + j) * input.value_stride + row.key_head * shape.d_v;
      const double weight = weights[j] * dropout_factor(shape, row, j);
      for (int64_t c = 0; c < shape.d_v; ++c) {
        result.output[index(row.query_row, width, row.head * shape.d_v + c)] += weight * double{value[c]};
      }
    }
  });
  return result;
}

AttentionBackward attention_backward(const AttentionShape& shape, const AttentionInput& input,
                                     const float* grad_output, int64_t grad_output_stride) {
  const int64_t key_heads = shape.heads / shape.query_heads_per_key();
  const int64_t query_width = shape.heads * shape.d_k;
  const int64_t key_width = key_heads * shape.d_k, value_width = key_heads * shape.d_v;
  const int64_t query_tokens = shape.query_offsets[shape.sequences];
  const int64_t key_tokens = shape.key_offsets[shape.sequences];
  AttentionBackward result;
  result.query.resize(index(query_tokens, query_width, 0));
  result.key.resize(index(key_tokens, key_width, 0));
  result.value.resize(index(key_tokens, value_width, 0));
  result.scores.resize(weight_count(shape));
  std::vector<double> weights, change;
  for_rows(shape, [&](const Row& row) {
    weights.assign(static_cast<size_t>(row.keys), 0.0);
    change.assign(static_cast<size_t>(row.keys), 0.0);
    softmax(shape, input, row, weights.data());
    const float* grad = grad_output + row.query_row * grad_output_stride + row.head * shape.d_v;
    double mean = 0;  // of the weights' gradients, by the weights
    for (int64_t j = 0; j < row.keys; ++j) {
      const size_t at = static_cast<size_t>(j);
      const double factor = dropout_factor(shape, row, j);
      const float* value =
          input.value + (row.first_key_row + j) * input.value_stride + row.key_head * shape.d_v;
      for (int64_t c = 0; c < shape.d_v; ++c) {
        change[at] += factor * double{grad[c]} * double{value[c]};
        result.value[index(row.first_key_row + j, value_width, row.key_head * shape.d_v + c)] +=
            weights[at] * factor * double{grad[c]};
      }
      mean += weights[at] * change[at];
    }
    const float* query = input.query + row.query_row * input.query_stride + row.head * shape.d_k;
    for (int64_t j = 0; j < row.keys; ++j) {
      const size_t at = static_cast<size_t>(j);
      const double score_gradient = weights[at] * (change[at] - mean);
      result.scores[row.weights + at] = score_gradient;
      const double product_gradient = score_gradient * double{shape.scale};
      const float* key = input.key + (row.first_key_row + j) * input.key_stride + row.key_head * shape.d_k;
      for (int64_t c = 0; c < shape.d_k; ++c) {
        result.query[index(row.query_row, query_width, row.head * shape.d_k + c)] +=
            product_gradient * double{key[c]};
        result.key[index(row.first_key_row + j, key_width, row.key_head * shape.d_k + c)] +=
            product_gradient * double{query[c]};
      }
    }
  });
  return result;
}

}  // namespace qkv::kernels::reference
