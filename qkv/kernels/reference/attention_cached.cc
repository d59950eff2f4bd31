#include <algorithm>
#include <bit>
#include <cmath>

#include "qkv/kernels/reference/attention.h"

namespace qkv::kernels::reference {
namespace {

// Element i of an entry.
double element(DType dtype, const void* entry, int64_t i) {
  if (dtype == DType::f32) return double{static_cast<const float*>(entry)[i]};
  return double{std::bit_cast<float>(uint32_t{static_cast<const BFloat16*>(entry)[i].bits} << 16)};
}

// Rounded to nearest, ties to even.
BFloat16 bf16_of(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  if (std::isnan(x)) return {static_cast<uint16_t>(bits >> 16 | 0x40u)};
  return {static_cast<uint16_t>((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16)};
}

double score(const CachedAttention& a, int64_t row, int64_t head, int64_t j) {
  const float* query = a.query + row * a.query_stride + head * a.d_k;
  const int64_t key = head / (a.heads / a.key_heads) * a.d_k;
  double sum = 0;
  for (int64_t c = 0; c < a.d_k; ++c) sum += double{query[c]} * element(a.dtype, a.entries[row][j], key + c);
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
  double largest = length == 0 ? 0 : *std::ranges::max_element(weights), sum = 0;
  if (a.sinks != nullptr && length > 0) {
    largest = std::max(largest, double{a.sinks[head]});
    sum = std::exp(double{a.sinks[head]} - largest);
  }
  for (double& w : weights) sum += w = std::exp(w - largest);
  for (double& w : weights) w /= sum;
  for (int64_t j = 0; j < length; ++j) {
    const int64_t value = a.key_heads * a.d_k + head / (a.heads / a.key_heads) * a.d_v;
    for (int64_t c = 0; c < a.d_v; ++c) {
      output[static_cast<size_t>(c)] +=
          weights[static_cast<size_t>(j)] * element(a.dtype, a.entries[row][j], value + c);
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

void store_cached(const CacheStore& a) {
  const int64_t width = a.key_width + a.value_width;
  for (int64_t i = 0; i < a.count; ++i) {
    for (int64_t c = 0; c < width; ++c) {
      const float x =
          c < a.key_width ? a.keys[i * a.key_stride + c] : a.values[i * a.value_stride + c - a.key_width];
      if (a.dtype == DType::f32) {
        static_cast<float*>(a.to[i])[c] = x;
      } else {
        static_cast<BFloat16*>(a.to[i])[c] = bf16_of(x);
      }
    }
  }
}

void load_cached(const CacheLoad& a) {
  const int64_t width = a.key_width + a.value_width;
  for (int64_t i = 0; i < a.count; ++i) {
    for (int64_t c = 0; c < width; ++c)
      a.to[i * width + c] = static_cast<float>(element(a.dtype, a.from[i], c));
  }
}

}  // namespace qkv::kernels::reference
