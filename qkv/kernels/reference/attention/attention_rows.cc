#include "qkv/kernels/reference/attention/attention_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "qkv/kernels/reference/doubles.h"
#include "qkv/kernels/reference/dropout.h"

namespace qkv::kernels::reference {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

}  // namespace

double product(const AttentionShape& shape, const AttentionInput& input, const AttentionRow& row, int64_t j) {
  const Elements query = query_of(shape, input, row), key = key_of(shape, input, row, j);
  double sum = 0;
  for (int64_t c = 0; c < shape.d_k; ++c) sum += get(query, c) * get(key, c);
  return sum * double{shape.scale};
}

double score(const AttentionShape& shape, const AttentionInput& input, const AttentionRow& row, int64_t j) {
  const int64_t away = distance(shape, row, j);
  if (shape.causal && away > 0) return kMinusInfinity;
  if (shape.window > 0 && std::abs(away) >= shape.window) return kMinusInfinity;
  if (shape.keep.data != nullptr && shape.keep.data[bias_index(shape.keep, row, j)] == 0)
    return kMinusInfinity;
  double sum = product(shape, input, row, j);
  if (shape.softcap > 0) sum = double{shape.softcap} * std::tanh(sum / double{shape.softcap});
  if (shape.alibi_slopes != nullptr)
    sum -= double{shape.alibi_slopes[row.head]} * static_cast<double>(std::abs(away));
  if (shape.relative.data != nullptr) sum += double{shape.relative.data[relative_index(shape, row, j)]};
  if (shape.bias.data != nullptr) sum += double{shape.bias.data[bias_index(shape.bias, row, j)]};
  return sum;
}

double softmax_row(const AttentionShape& shape, const AttentionInput& input, const AttentionRow& row,
                   double* weights) {
  double largest = kMinusInfinity, sum = 0;
  for (int64_t j = 0; j < row.keys; ++j) {
    weights[j] = score(shape, input, row, j);
    largest = std::max(largest, weights[j]);
  }
  if (largest == kMinusInfinity) {
    std::fill_n(weights, row.keys, 0.0);
    return kMinusInfinity;
  }
  if (shape.sinks != nullptr) {
    const double sink = shape.sinks[row.head];
    largest = std::max(largest, sink);
    sum = std::exp(sink - largest);
  }
  for (int64_t j = 0; j < row.keys; ++j) sum += weights[j] = std::exp(weights[j] - largest);
  for (int64_t j = 0; j < row.keys; ++j) weights[j] /= sum;
  return largest + std::log(sum);
}

double dropout_factor(const AttentionShape& shape, const AttentionRow& row, int64_t key) {
  return dropout_factor(shape.dropout, row.query_row, row.head * (int64_t{1} << 22) + key);
}

}  // namespace qkv::kernels::reference
