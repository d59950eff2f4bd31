#include <algorithm>
#include <cmath>

#include "qkv/kernels/reference/attention.h"

namespace qkv::kernels::reference {
namespace {

double score(const CachedAttention& a, int64_t row, int64_t head, int64_t j) {
  const float* query = a.query + row * a.query_stride + head * a.d_k;
  const float* key = a.entries[row][j] + head / (a.heads / a.key_heads) * a.d_k;
  double sum = 0;
  for (int64_t c = 0; c < a.d_k; ++c) sum += double{query[c]} * double{key[c]};
  sum *= double{a.scale};
  if (a.softcap > 0) sum = double{a.softcap} * std::tanh(sum / double{a.softcap});
  const int64_t distance = j - (a.lengths[row] - 1);  // the query is at the last position
  if (a.alibi_slopes != nullptr) sum += double{a.alibi_slopes[head]} * static_cast<double>(distance);
  if (a.relative.data != nullptr)
    sum += double{a.relative.data[head * a.relative.head_stride + a.relative.zero + distance]};
  return sum;
}

void attend(const CachedAttention& a, int64_t row, int64_t head) {
  const int64_t length = a.lengths[row];
  Doubles weights, output(static_cast<size_t>(a.d_v));
  for (int64_t j = 0; j < length; ++j) weights.push_back(score(a, row, head, j));
  const double largest = length == 0 ? 0 : *std::ranges::max_element(weights);
  double sum = 0;
  for (double& w : weights) sum += w = std::exp(w - largest);
  for (double& w : weights) w /= sum;
  for (int64_t j = 0; j < length; ++j) {
    const float* value = a.entries[row][j] + a.key_heads * a.d_k + head / (a.heads / a.key_heads) * a.d_v;
    for (int64_t c = 0; c < a.d_v; ++c) {
      output[static_cast<size_t>(c)] += weights[static_cast<size_t>(j)] * double{value[c]};
    }
  }
  store(output, a.output + row * a.output_stride + head * a.d_v);
  if (a.weights != nullptr) store(weights, a.weights[row] + head * length);
}

}  // namespace

void attention_cached(const CachedAttention& attention) {
  for (int64_t row = 0; row < attention.rows; ++row) {
    for (int64_t head = 0; head < attention.heads; ++head) attend(attention, row, head);
  }
}

}  // namespace qkv::kernels::reference
