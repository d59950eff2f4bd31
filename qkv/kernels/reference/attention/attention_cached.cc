#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "qkv/kernels/backend/cache_entry.h"
#include "qkv/kernels/reference/attention/attention.h"
#include "qkv/kernels/reference/memory.h"
#include "qkv/kernels/reference/weights.h"

namespace qkv::kernels::reference {
namespace {

double number_of(DType dtype, const std::byte* entry, int64_t i) {
  return element({.data = entry, .dtype = dtype, .rows = 1}, 0, i);
}

// Calls visit(number, entry) for each position of the rows, one after the other; width: of an entry.
template <class Visit>
void for_entries(std::span<const CacheRow> rows, int64_t width, DType dtype, const Visit& visit) {
  for (int64_t position = 0; const CacheRow& row : rows) {
    for (size_t i = 0; i < row.numbers.size(); ++i)
      visit(position++, readable(cache_entry(row, i, bytes_of(dtype, width))));
  }
}

// As CacheStore has it.
void round_to_q8_0(const float* block, std::byte* to) {
  float largest = 0;
  bool finite = true;
  for (int i = 0; i < 32; ++i) {
    largest = std::max(largest, std::abs(block[i]));
    finite = finite && std::isfinite(block[i]);
  }
  const float wanted = finite ? largest / 127 : NAN;
  Float16 scale;
  round_to_f16(&wanted, &scale, 1);
  std::memcpy(to, &scale, sizeof(scale));
  const double step = element({.data = &scale, .dtype = DType::f16, .rows = 1}, 0, 0);
  for (int i = 0; i < 32; ++i) {
    const double level = finite && step > 0 ? std::clamp(double{block[i]} / step, -127.0, 127.0) : 0;
    to[2 + i] = static_cast<std::byte>(static_cast<int>(std::nearbyint(static_cast<float>(level))));
  }
}

const std::byte* entry_of(const CachedAttention& a, int64_t row, int64_t j) {
  return readable(cache_entry(a.rows[static_cast<size_t>(row)], static_cast<size_t>(j), a.entry_bytes()));
}

int64_t length_of(const CachedAttention& a, int64_t row) {
  return std::ssize(a.rows[static_cast<size_t>(row)].numbers);
}

double score(const CachedAttention& a, int64_t row, int64_t head, int64_t j) {
  const Elements query = a.query + (row * a.query_stride + head * a.d_k);
  const int64_t key = head / (a.heads / a.key_heads) * a.d_k;
  double sum = 0;
  for (int64_t c = 0; c < a.d_k; ++c) sum += get(query, c) * number_of(a.dtype, entry_of(a, row, j), key + c);
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
          weights[static_cast<size_t>(j)] * number_of(a.dtype, entry_of(a, row, j), value + c);
    }
  }
  store(output, a.output + (row * a.output_stride + head * a.d_v));
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
  std::vector<float> numbers(static_cast<size_t>(width));
  for_entries(a.to, width, a.dtype, [&](int64_t i, std::byte* entry) {
    for (int64_t c = 0; c < width; ++c) {
      const double number = c < a.key_width ? get(a.keys, i * a.key_stride + c)
                                            : get(a.values, i * a.value_stride + c - a.key_width);
      numbers[static_cast<size_t>(c)] = static_cast<float>(number);
    }
    if (a.dtype == DType::bf16) {
      round_to_bf16(numbers.data(), reinterpret_cast<BFloat16*>(entry), width);
    } else if (a.dtype == DType::q8_0) {
      for (int64_t c = 0; c < width; c += 32) round_to_q8_0(numbers.data() + c, entry + bytes_of(a.dtype, c));
    } else {
      std::ranges::copy(numbers, reinterpret_cast<float*>(entry));
    }
  });
}

void load_cached(const CacheLoad& a) {
  for_entries(a.from, a.width, a.dtype, [&](int64_t i, const std::byte* entry) {
    for (int64_t c = 0; c < a.width; ++c)
      store_element(a.to, i * a.width + c, number_of(a.dtype, entry, c), Accumulate::no);
  });
}

void copy_cached(const CacheCopy& a) {
  for (size_t i = 0; i < a.from.numbers.size(); ++i)
    std::copy_n(readable(cache_entry(a.from, i, a.bytes)), a.bytes, readable(cache_entry(a.to, i, a.bytes)));
}

}  // namespace qkv::kernels::reference
