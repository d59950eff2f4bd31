#include <algorithm>
#include <bit>
#include <cmath>

#include "qkv/kernels/backend/cache_entry.h"
#include "qkv/kernels/reference/attention.h"
#include "qkv/kernels/reference/memory.h"

namespace qkv::kernels::reference {
namespace {

// Element i of an entry.
double element(DType dtype, const std::byte* entry, int64_t i) {
  if (dtype == DType::f32) return double{reinterpret_cast<const float*>(entry)[i]};
  return double{std::bit_cast<float>(uint32_t{reinterpret_cast<const BFloat16*>(entry)[i].bits} << 16)};
}

// Calls visit(number, entry) for each position of the rows, one after the other; width: of an entry.
template <class Visit>
void for_entries(std::span<const CacheRow> rows, int64_t width, DType dtype, const Visit& visit) {
  for (int64_t position = 0; const CacheRow& row : rows) {
    for (size_t i = 0; i < row.numbers.size(); ++i)
      visit(position++, readable(cache_entry(row, i, bytes_of(dtype, width))));
  }
}

// Rounded to nearest, ties to even.
BFloat16 bf16_of(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  if (std::isnan(x)) return {static_cast<uint16_t>(bits >> 16 | 0x40u)};
  return {static_cast<uint16_t>((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16)};
}

const std::byte* entry_of(const CachedAttention& a, int64_t row, int64_t j) {
  return readable(cache_entry(a.rows[static_cast<size_t>(row)], static_cast<size_t>(j), a.entry_bytes()));
}

int64_t length_of(const CachedAttention& a, int64_t row) {
  return std::ssize(a.rows[static_cast<size_t>(row)].numbers);
}

double score(const CachedAttention& a, int64_t row, int64_t head, int64_t j) {
  const float* query = a.query + row * a.query_stride + head * a.d_k;
  const int64_t key = head / (a.heads / a.key_heads) * a.d_k;
  double sum = 0;
  for (int64_t c = 0; c < a.d_k; ++c)
    sum += double{query[c]} * element(a.dtype, entry_of(a, row, j), key + c);
  sum *= double{a.scale};
  if (a.softcap > 0) sum = double{a.softcap} * std::tanh(sum / double{a.softcap});
  const int64_t distance = j - (length_of(a, row) - 1);  // the query is at the last position
  if (a.alibi_slopes != nullptr) sum += double{a.alibi_slopes[head]} * static_cast<double>(distance);
  if (a.relative.data != nullptr)
    sum += double{a.relative.data[head * a.relative.head_stride + a.relative.zero + distance]};
  return sum;
}

void attend(const CachedAttention& a, int64_t row, int64_t head) {
  const int64_t length = length_of(a, row);
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
          weights[static_cast<size_t>(j)] * element(a.dtype, entry_of(a, row, j), value + c);
    }
  }
  store(output, a.output + row * a.output_stride + head * a.d_v);
  if (a.weights != nullptr) store(weights, a.weights + a.weight_offsets[row] + head * length);
}

}  // namespace

void attention_cached(const CachedAttention& attention) {
  for (int64_t row = 0; row < std::ssize(attention.rows); ++row) {
    for (int64_t head = 0; head < attention.heads; ++head) attend(attention, row, head);
  }
}

void store_cached(const CacheStore& a) {
  const int64_t width = a.key_width + a.value_width;
  for_entries(a.to, width, a.dtype, [&](int64_t i, std::byte* entry) {
    for (int64_t c = 0; c < width; ++c) {
      const float x =
          c < a.key_width ? a.keys[i * a.key_stride + c] : a.values[i * a.value_stride + c - a.key_width];
      if (a.dtype == DType::f32) {
        reinterpret_cast<float*>(entry)[c] = x;
      } else {
        reinterpret_cast<BFloat16*>(entry)[c] = bf16_of(x);
      }
    }
  });
}

void load_cached(const CacheLoad& a) {
  for_entries(a.from, a.width, a.dtype, [&](int64_t i, const std::byte* entry) {
    for (int64_t c = 0; c < a.width; ++c)
      a.to[i * a.width + c] = static_cast<float>(element(a.dtype, entry, c));
  });
}

}  // namespace qkv::kernels::reference
