#include <algorithm>
#include <cmath>

#include "qkv/kernels/reference/attention/attention.h"
#include "qkv/kernels/reference/attention/attention_rows.h"

namespace qkv::kernels::reference {
namespace {

// Accumulates by index before adding to an array of floats, as several scores may share an element of a bias.
class Sums {
 public:
  void add(int64_t index, double value) {
    const auto i = static_cast<size_t>(index);
    if (i >= sums_.size()) sums_.resize(i + 1);
    sums_[i] += value;
  }
  void store_to(float* to) const { store(sums_, to, Accumulate::yes); }

 private:
  Doubles sums_;
};

}  // namespace

// With s = q k scale + biases, p = softmax(s), o = sum_j d_j p_j v_j (d: dropout's factors):
//   dv_j = p_j d_j do,   dp_j = d_j do v_j,   ds_j = p_j (dp_j - sum_l p_l dp_l)
//   of a sink, whose weight is p and value 0: ds = -p sum_l p_l dp_l
//   dq = scale sum_j ds_j k_j,   dk_j = scale ds_j q, ds being multiplied by a softcap's derivative first
AttentionBackward attention_backward(const AttentionShape& shape, const AttentionInput& input,
                                     Elements grad_output, int64_t grad_output_stride) {
  const int64_t key_heads = shape.heads / shape.query_heads_per_key();
  const int64_t query_width = shape.heads * shape.d_k;
  const int64_t key_width = key_heads * shape.d_k, value_width = key_heads * shape.d_v;
  const int64_t query_tokens = shape.query_offsets[shape.sequences];
  const int64_t key_tokens = shape.key_offsets[shape.sequences];
  AttentionBackward result;
  result.query.resize(static_cast<size_t>(query_tokens * query_width));
  result.key.resize(static_cast<size_t>(key_tokens * key_width));
  result.value.resize(static_cast<size_t>(key_tokens * value_width));
  result.scores.resize(weight_count(shape));
  result.sinks.resize(static_cast<size_t>(shape.heads));
  for_rows(shape, [&](const AttentionRow& row) {
    Doubles p(static_cast<size_t>(row.keys)), dp(p.size());
    const double log_sum_exp = softmax_row(shape, input, row, p.data());
    const Elements d_output = grad_output + (row.query_row * grad_output_stride + row.head * shape.d_v);
    double mean = 0;  // of dp, weighted by p
    for (size_t j = 0; j < p.size(); ++j) {
      if (p[j] == 0) continue;
      const auto key = static_cast<int64_t>(j);
      const double factor = dropout_factor(shape, row, key);
      const Elements value = value_of(shape, input, row, key);
      double* dv = result.value.data() + (row.first_key_row + key) * value_width + row.key_head * shape.d_v;
      for (int64_t c = 0; c < shape.d_v; ++c) {
        dv[c] += p[j] * factor * get(d_output, c);
        dp[j] += factor * get(d_output, c) * get(value, c);
      }
      mean += p[j] * dp[j];
    }
    if (shape.sinks != nullptr && mean != 0)
      result.sinks[static_cast<size_t>(row.head)] -=
          std::exp(double{shape.sinks[row.head]} - log_sum_exp) * mean;
    const Elements q = query_of(shape, input, row);
    double* dq = result.query.data() + row.query_row * query_width + row.head * shape.d_k;
    for (size_t j = 0; j < p.size(); ++j) {
      if (p[j] == 0) continue;
      const auto key = static_cast<int64_t>(j);
      const double ds = p[j] * (dp[j] - mean);
      result.scores[row.weights + j] = ds;
      double slope = double{shape.scale};
      if (shape.softcap > 0) {
        const double tanh = std::tanh(product(shape, input, row, key) / double{shape.softcap});
        slope *= 1 - tanh * tanh;
      }
      const Elements k = key_of(shape, input, row, key);
      double* dk = result.key.data() + (row.first_key_row + key) * key_width + row.key_head * shape.d_k;
      for (int64_t c = 0; c < shape.d_k; ++c) {
        dq[c] += ds * slope * get(k, c);
        dk[c] += ds * slope * get(q, c);
      }
    }
  });
  return result;
}

void attention_backward(const AttentionShape& shape, const AttentionInput& input, Elements grad_output,
                        int64_t grad_output_stride, const AttentionGradients& to) {
  const AttentionBackward result = attention_backward(shape, input, grad_output, grad_output_stride);
  const int64_t key_heads = shape.heads / shape.query_heads_per_key();
  store(result.query, shape.heads * shape.d_k, to.query, to.query_stride, to.query_accumulate);
  store(result.key, key_heads * shape.d_k, to.key, to.key_stride, to.key_accumulate);
  store(result.value, key_heads * shape.d_v, to.value, to.value_stride, to.value_accumulate);
  Sums bias, relative;
  for_rows(shape, [&](const AttentionRow& row) {
    for (int64_t j = 0; j < row.keys; ++j) {
      const double ds = result.scores[row.weights + static_cast<size_t>(j)];
      if (ds == 0) continue;
      if (to.bias != nullptr) bias.add(bias_index(shape.bias, row, j), ds);
      if (to.relative != nullptr) relative.add(relative_index(shape, row, j), ds);
    }
  });
  bias.store_to(to.bias);
  relative.store_to(to.relative);
  if (to.sinks != nullptr) store(result.sinks, to.sinks, Accumulate::yes);
}

}  // namespace qkv::kernels::reference
