// A decoding step's attention, and the KV cache.

#include <algorithm>
#include <vector>

#include "qkv/kernels/backend/cache_entry.h"
#include "qkv/kernels/cuda/elements.h"
#include "qkv/kernels/cuda/grid.h"
#include "qkv/kernels/cuda/kernels.h"
#include "qkv/kernels/cuda/memory.h"
#include "qkv/kernels/cuda/weights.h"

namespace qkv::kernels::cuda {
namespace {

// The entries of rows, one row after the other: entry i of row r is entries[begin[r] + i].
class Entries {
 public:
  Entries(std::span<const CacheRow> rows, size_t entry_bytes) : Entries(addresses(rows, entry_bytes)) {}

  int64_t count() const { return count_; }
  std::byte* const* entries() const { return entries_.data(); }
  const int64_t* begin() const { return begin_.data(); }

 private:
  struct Host {
    std::vector<std::byte*> entries;
    std::vector<int64_t> begin;
  };
  static Host addresses(std::span<const CacheRow> rows, size_t entry_bytes) {
    Host host;
    for (const CacheRow& row : rows) {
      host.begin.push_back(std::ssize(host.entries));
      for (size_t i = 0; i < row.numbers.size(); ++i)
        host.entries.push_back(cache_entry(row, i, entry_bytes));
    }
    host.begin.push_back(std::ssize(host.entries));
    return host;
  }
  explicit Entries(const Host& host)
      : count_(std::ssize(host.entries)),
        entries_(std::span<std::byte* const>(host.entries)),
        begin_(std::span<const int64_t>(host.begin)) {}

  int64_t count_;
  Array<std::byte*> entries_;
  Array<int64_t> begin_;
};

QKV_DEVICE float number(DType dtype, const std::byte* entry, int64_t i) {
  if (dtype == DType::f32) return reinterpret_cast<const float*>(entry)[i];
  if (dtype == DType::bf16) return widened_bf16(reinterpret_cast<const uint16_t*>(entry)[i]);
  const std::byte* const block = entry + i / 32 * 34;  // q8_0: an f16 scale and 32 integers
  uint16_t scale;
  memcpy(&scale, block, sizeof(scale));
  return widened_f16(scale) * static_cast<float>(static_cast<int8_t>(block[2 + i % 32]));
}

// 32 numbers as CacheStore has it.
QKV_DEVICE void store_q8_0(const float* x, std::byte* block) {
  float largest = 0;
  bool finite = true;
  for (int i = 0; i < 32; ++i) {
    const float magnitude = ::fabsf(x[i]);
    if (magnitude > largest) largest = magnitude;
    finite = finite && x[i] - x[i] == 0;
  }
  const uint16_t scale = finite ? rounded_f16(largest / 127) : 0x7E00;
  memcpy(block, &scale, sizeof(scale));
  const float step = widened_f16(scale);
  for (int i = 0; i < 32; ++i) {
    float level = finite && step > 0 ? ::nearbyintf(static_cast<float>(static_cast<double>(x[i]) / step)) : 0;
    level = level < -127 ? -127 : level > 127 ? 127 : level;
    block[2 + i] = static_cast<std::byte>(static_cast<int8_t>(level));
  }
}

}  // namespace

void store_cached(const CacheStore& a) {
  const int64_t width = a.key_width + a.value_width;
  const Entries all(a.to, bytes_of(a.dtype, width));
  std::byte* const* const entries = all.entries();
  const auto number_of = [=] QKV_DEVICE(int64_t position, int64_t c) {
    return c < a.key_width ? get(a.keys, position * a.key_stride + c)
                           : get(a.values, position * a.value_stride + c - a.key_width);
  };
  if (a.dtype == DType::q8_0) {
    for_each(all.count() * (width / 32), [=] QKV_DEVICE(int64_t n) {
      const int64_t position = n / (width / 32), block = n % (width / 32);
      float x[32];
      for (int i = 0; i < 32; ++i) x[i] = number_of(position, block * 32 + i);
      store_q8_0(x, entries[position] + block * 34);
    });
    return;
  }
  for_each(all.count() * width, [=] QKV_DEVICE(int64_t n) {
    const float value = number_of(n / width, n % width);
    if (a.dtype == DType::bf16) {
      reinterpret_cast<uint16_t*>(entries[n / width])[n % width] = rounded_bf16(value);
    } else {
      reinterpret_cast<float*>(entries[n / width])[n % width] = value;
    }
  });
}

void load_cached(const CacheLoad& a) {
  const Entries all(a.from, bytes_of(a.dtype, a.width));
  std::byte* const* const entries = all.entries();
  for_each(all.count() * a.width,
           [=] QKV_DEVICE(int64_t n) { put(a.to, n, number(a.dtype, entries[n / a.width], n % a.width)); });
}

void copy_cached(const CacheCopy& a) {
  const Entries from({&a.from, 1}, a.bytes), to({&a.to, 1}, a.bytes);
  std::byte* const* const sources = from.entries();
  std::byte* const* const targets = to.entries();
  const auto bytes = static_cast<int64_t>(a.bytes);
  for_each(from.count() * bytes,
           [=] QKV_DEVICE(int64_t n) { targets[n / bytes][n % bytes] = sources[n / bytes][n % bytes]; });
}

void attention_cached(const CachedAttention& given) {
  const CachedAttention a = given;
  const auto rows = std::ssize(a.rows);
  const Entries all(a.rows, a.entry_bytes());
  std::byte* const* const entries = all.entries();
  const int64_t* const begin = all.begin();
  const Array<int64_t> offsets(a.weight_offsets, a.weights != nullptr ? rows : 0);
  const int64_t* const weight_offsets = offsets.data();

  const auto score = [=] QKV_DEVICE(int64_t row, int64_t head, int64_t j) {
    const std::byte* const entry = entries[begin[row] + j];
    const int64_t query = row * a.query_stride + head * a.d_k;
    const int64_t key = head / (a.heads / a.key_heads) * a.d_k, length = begin[row + 1] - begin[row];
    float sum = 0;
    for (int64_t c = 0; c < a.d_k; ++c) sum += get(a.query, query + c) * number(a.dtype, entry, key + c);
    sum *= a.scale;
    if (a.softcap > 0) sum = a.softcap * ::tanhf(sum / a.softcap);
    const int64_t distance = j - (length - 1);  // the query is at the last position
    if (a.alibi_slopes != nullptr) sum += a.alibi_slopes[head] * static_cast<float>(distance);
    if (a.relative.data != nullptr)
      sum += a.relative.data[head * a.relative.head_stride + a.relative.zero + distance];
    return sum;
  };

  launch(
      rows * a.heads,
      [=] QKV_DEVICE(const Thread& thread) {
        auto* const weights = reinterpret_cast<float*>(thread.shared);
        float* const sums = weights + kThreads;  // [d_v]
        const int64_t row = thread.block / a.heads, head = thread.block % a.heads,
                      length = begin[row + 1] - begin[row];
        float largest = -INFINITY;
        double sum = 0;
        for (int64_t j = thread.index; j < length; j += thread.count) {
          const float x = score(row, head, j);
          if (x > largest) {
            sum *= ::expf(largest - x);
            largest = x;
          }
          sum += ::expf(x - largest);
        }
        float all_largest = thread.maximum(largest);
        if (a.sinks != nullptr && a.sinks[head] > all_largest) all_largest = a.sinks[head];
        sum = thread.sum(largest == -INFINITY ? 0 : sum * ::expf(largest - all_largest));
        if (a.sinks != nullptr) sum += ::expf(a.sinks[head] - all_largest);
        const auto inverse = static_cast<float>(1 / sum);

        for (int64_t c = thread.index; c < a.d_v; c += thread.count) sums[c] = 0;
        const int64_t value = a.key_heads * a.d_k + head / (a.heads / a.key_heads) * a.d_v;
        for (int64_t first = 0; first < length; first += thread.count) {
          const int64_t own = first + thread.index,
                        end = length - first < thread.count ? length - first : thread.count;
          thread.synchronise();
          if (own < length) {
            weights[thread.index] = ::expf(score(row, head, own) - all_largest) * inverse;
            if (a.weights != nullptr)
              a.weights[weight_offsets[row] + head * length + own] = weights[thread.index];
          }
          thread.synchronise();
          for (int64_t c = thread.index; c < a.d_v; c += thread.count) {
            for (int64_t j = 0; j < end; ++j)
              sums[c] += weights[j] * number(a.dtype, entries[begin[row] + first + j], value + c);
          }
        }
        for (int64_t c = thread.index; c < a.d_v; c += thread.count)
          put(a.output, row * a.output_stride + head * a.d_v + c, sums[c]);
      },
      static_cast<size_t>(kThreads + a.d_v) * sizeof(float));
}

}  // namespace qkv::kernels::cuda
