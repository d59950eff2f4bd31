#include <algorithm>
#include <numeric>

#include "qkv/kernels/reference/attention/attention.h"
#include "qkv/kernels/reference/attention/attention_rows.h"

namespace qkv::kernels::reference {
namespace {

void store_largest(const double* p, int64_t keys, int64_t top, float* top_weights, int32_t* top_keys) {
  std::vector<int32_t> order(static_cast<size_t>(keys));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](int32_t a, int32_t b) { return p[a] > p[b]; });
  for (int64_t n = 0; n < top; ++n) {
    const int32_t key = n < keys ? order[static_cast<size_t>(n)] : -1;
    const bool found = key >= 0 && p[key] > 0;
    top_keys[n] = found ? key : -1;
    top_weights[n] = found ? static_cast<float>(p[key]) : 0;
  }
}

// `number`: the row number of AttentionCapture.
void capture(const AttentionCapture& wanted, int64_t number, const double* weights, const Doubles& scores) {
  const auto keys = static_cast<int64_t>(scores.size());
  if (wanted.offsets != nullptr) {
    if (wanted.weights != nullptr) {
      store(Doubles(weights, weights + keys), wanted.weights + wanted.offsets[number]);
    }
    if (wanted.scores != nullptr) store(scores, wanted.scores + wanted.offsets[number]);
  }
  if (wanted.top > 0) {
    store_largest(weights, keys, wanted.top, wanted.top_weights + number * wanted.top,
                  wanted.top_keys + number * wanted.top);
  }
}

}  // namespace

// o_i = sum_j dropout(p_ij) v_j,   p_i = softmax_j(q_i k_j scale + biases)
AttentionForward attention_forward(const AttentionShape& shape, const AttentionInput& input) {
  const int64_t tokens = shape.query_offsets[shape.sequences], width = shape.heads * shape.d_v;
  AttentionForward result;
  result.output.resize(static_cast<size_t>(tokens * width));
  result.log_sum_exp.resize(static_cast<size_t>(shape.heads * tokens));
  result.weights.resize(weight_count(shape));
  for_rows(shape, [&](const AttentionRow& row) {
    double* weights = result.weights.data() + row.weights;
    double* output = result.output.data() + row.query_row * width + row.head * shape.d_v;
    result.log_sum_exp[at(row.head, tokens, row.query_row)] = softmax_row(shape, input, row, weights);
    for (int64_t j = 0; j < row.keys; ++j) {
      if (weights[j] == 0) continue;
      const double weight = weights[j] * dropout_factor(shape, row, j);
      const Elements value = value_of(shape, input, row, j);
      for (int64_t c = 0; c < shape.d_v; ++c) output[c] += weight * get(value, c);
    }
  });
  return result;
}

void attention_forward(const AttentionShape& shape, const AttentionInput& input,
                       const AttentionOutput& output) {
  const AttentionForward result = attention_forward(shape, input);
  const int64_t tokens = shape.query_offsets[shape.sequences];
  store(result.output, shape.heads * shape.d_v, output.output, output.output_stride, Accumulate::no);
  store(result.log_sum_exp, output.log_sum_exp);
  for_rows(shape, [&](const AttentionRow& row) {
    Doubles scores;
    for (int64_t j = 0; j < row.keys; ++j) scores.push_back(score(shape, input, row, j));
    capture(output.capture, row.head * tokens + row.query_row, result.weights.data() + row.weights, scores);
  });
}

}  // namespace qkv::kernels::reference
