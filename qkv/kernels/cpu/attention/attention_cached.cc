#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "qkv/base/parallel.h"
#include "qkv/kernels/backend/cache_entry.h"
#include "qkv/kernels/cpu/attention/attention_tasks.h"
#include "qkv/kernels/cpu/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "qkv/kernels/cpu/attention/attention_cached.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "qkv/kernels/cpu/activation-inl.h"
#include "qkv/kernels/cpu/attention/attention_product-inl.h"
#include "qkv/kernels/cpu/attention/cache_entry-inl.h"
#include "qkv/kernels/cpu/exponential-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::kernels::HWY_NAMESPACE {
namespace {

// Replaces scores by exp(score - largest), a sink's included unless it is null; returns their sum and the
// sink's.
float exponentiate(Floats d, float* HWY_RESTRICT scores, int64_t count, const float* sink) {
  auto most = hn::Set(d, sink == nullptr ? scores[0] : std::max(scores[0], *sink));
  for_vectors(d, count, [&](auto part, int64_t j) HWY_ATTR {
    // Lanes past the end are 0, which would be too large if all scores are negative.
    const auto v = load(d, scores + j, part);
    if constexpr (std::is_same_v<decltype(part), Part>) {
      most = hn::IfThenElse(hn::FirstN(d, part.count), hn::Max(most, v), most);
    } else {
      most = hn::Max(most, v);
    }
  });
  const auto largest = hn::MaxOfLanes(d, most);
  auto sum = hn::Zero(d);
  for_vectors(d, count, [&](auto part, int64_t j) HWY_ATTR {
    const auto e =
        zero_rest(d, exponential_of_difference(d, hn::Sub(load(d, scores + j, part), largest)), part);
    store(d, e, scores + j, part);
    sum = hn::Add(sum, e);
  });
  const float total = hn::GetLane(hn::SumOfLanes(d, sum));
  if (sink == nullptr) return total;
  return total + hn::GetLane(exponential_of_difference(d, hn::Sub(hn::Set(d, *sink), largest)));
}

// Some of a row's positions, for one key head.
struct PositionTile {
  const float* const* rows;
  int64_t offset;        // of the head's keys or values within a row
  int64_t begin, count;  // positions
};

// to[i] += sum_j weights[j] values[j][i] for N vectors of i, the last of which may be partial: a single chain
// over all tiles, the first of which starts at zero.
template <int N, class LastPart>
HWY_INLINE void weighted_sum(Floats d, const float* HWY_RESTRICT weights, const PositionTile& tile, int64_t i,
                             LastPart last, float* HWY_RESTRICT to) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  FloatVector sum[N];
#pragma GCC unroll 4
  for (int n = 0; n < N; ++n) sum[n] = hn::Zero(d);
  if (tile.begin > 0) {
#pragma GCC unroll 4
    for (int n = 0; n + 1 < N; ++n) sum[n] = hn::LoadU(d, to + n * lanes);
    sum[N - 1] = load(d, to + (N - 1) * lanes, last);
  }
  for (int64_t j = 0; j < tile.count; ++j) {
    const float* HWY_RESTRICT value = tile.rows[j] + tile.offset + i;
    const auto weight = hn::Set(d, weights[j]);
#pragma GCC unroll 4
    for (int n = 0; n + 1 < N; ++n) sum[n] = hn::MulAdd(weight, hn::LoadU(d, value + n * lanes), sum[n]);
    sum[N - 1] = hn::MulAdd(weight, load(d, value + (N - 1) * lanes, last), sum[N - 1]);
  }
#pragma GCC unroll 4
  for (int n = 0; n + 1 < N; ++n) hn::StoreU(sum[n], d, to + n * lanes);
  store(d, sum[N - 1], to + (N - 1) * lanes, last);
}

template <class LastPart>
HWY_INLINE void mix_vectors(Floats d, const float* weights, const PositionTile& tile, int64_t i,
                            int64_t vectors, LastPart last, float* to) {
  switch (vectors) {
    case 1:
      return weighted_sum<1>(d, weights, tile, i, last, to);
    case 2:
      return weighted_sum<2>(d, weights, tile, i, last, to);
    case 3:
      return weighted_sum<3>(d, weights, tile, i, last, to);
    default:
      return weighted_sum<4>(d, weights, tile, i, last, to);
  }
}

// Adds the biases by distance from the last position.
void add_distances(Floats d, const CachedAttention& a, int64_t head, int64_t count,
                   float* HWY_RESTRICT scores) {
  const float slope = a.alibi_slopes == nullptr ? 0.0f : a.alibi_slopes[head];
  const float* relative = a.relative.data == nullptr ? nullptr
                                                     : a.relative.data + head * a.relative.head_stride +
                                                           a.relative.zero - (count - 1);
  if (slope == 0 && relative == nullptr) return;
  for_vectors(d, count, [&](auto part, int64_t j) HWY_ATTR {
    auto v = load(d, scores + j, part);
    if (slope != 0) {
      v = hn::MulAdd(hn::Set(d, slope), hn::Iota(d, static_cast<float>(j - (count - 1))), v);
    }
    if (relative != nullptr) v = hn::Add(v, load(d, relative + j, part));
    store(d, v, scores + j, part);
  });
}

// s becomes cap tanh(s / cap).
void cap_scores(Floats d, float cap, int64_t count, float* HWY_RESTRICT scores) {
  for_vectors(d, count, [&](auto part, int64_t j) HWY_ATTR {
    const auto x = hn::Div(load(d, scores + j, part), hn::Set(d, cap));
    store(d, hn::Mul(hn::Set(d, cap), Tanh::value(d, x)), scores + j, part);
  });
}

// Entries in another dtype than f32 are widened for all heads of a key head, as many at a time as stay in the
// first cache.
constexpr int64_t kTilePositions = 128;

// Calls body(tile) for the positions of a row in order; a position's numbers start at `first` in its entry
// and are `width` many.
template <class Body>
void for_tiles(const CachedAttention& a, const void* const* entries, int64_t count, int64_t first,
               int64_t width, float* memory, const Body& body) {
  if (a.dtype == DType::f32) {
    body(PositionTile{reinterpret_cast<const float* const*>(entries), first, 0, count});
    return;
  }
  const float* rows[kTilePositions];
  for (int64_t j = 0; j < kTilePositions; ++j) rows[j] = memory + j * width;
  for (int64_t begin = 0; begin < count; begin += kTilePositions) {
    const int64_t positions = std::min(kTilePositions, count - begin);
    for (int64_t j = 0; j < positions; ++j)
      widen_entry(a.dtype, static_cast<const std::byte*>(entries[begin + j]), first, width,
                  memory + j * width);
    body(PositionTile{rows, 0, begin, positions});
  }
}

// Scores to weights, but for the factor that is returned.
float softmax(const CachedAttention& a, int64_t row, int64_t count, int64_t head, float* scores) {
  const Floats d;
  if (a.softcap > 0) cap_scores(d, a.softcap, count, scores);
  add_distances(d, a, head, count, scores);
  const float factor = 1 / exponentiate(d, scores, count, a.sinks == nullptr ? nullptr : a.sinks + head);
  if (a.weights != nullptr) {
    std::transform(scores, scores + count, a.weights + a.weight_offsets[row] + head * count,
                   [factor](float score) { return factor * score; });
  }
  return factor;
}

// Adds a tile's values. Four vectors of them at a time stay in registers.
void mix(const CachedAttention& a, const PositionTile& tile, const float* weights, float* to) {
  const Floats d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < a.d_v; i += 4 * lanes) {
    const int64_t width = std::min(4 * lanes, a.d_v - i), vectors = (width + lanes - 1) / lanes;
    if (const int64_t rest = width % lanes; rest > 0) {
      mix_vectors(d, weights, tile, i, vectors, Part{static_cast<size_t>(rest)}, to + i);
    } else {
      mix_vectors(d, weights, tile, i, vectors, Full{}, to + i);
    }
  }
}

// Heads [first, first + heads), which have one key head; entries: of the row's positions.
void attend_heads(const CachedAttention& a, const void* const* entries, int64_t row, int64_t first,
                  int64_t heads) {
  const Floats d;
  const int64_t count = std::ssize(a.rows[static_cast<size_t>(row)].numbers);
  float* const output = a.output.f32() + row * a.output_stride + first * a.d_v;
  if (count == 0) {
    std::fill_n(output, heads * a.d_v, 0.0f);
    return;
  }
  AttentionScratch& scratch = AttentionScratch::of_this_thread();
  const int64_t stride = count + 4;  // dot_products() writes up to three numbers beyond the scores
  const int64_t wide = a.dtype == DType::f32 ? 0 : kTilePositions * std::max(a.d_k, a.d_v);
  scratch.start(heads * stride + wide);
  float* const scores = scratch.take(heads * stride);
  float* const memory = scratch.take(wide);
  const float* const query = a.query.f32() + row * a.query_stride + first * a.d_k;
  const int64_t key_head = first / (a.heads / a.key_heads);
  for_tiles(a, entries, count, key_head * a.d_k, a.d_k, memory, [&](const PositionTile& tile) HWY_ATTR {
    for (int64_t h = 0; h < heads; ++h) {
      dot_products(
          d, query + h * a.d_k, a.d_k, [&](int64_t j) { return tile.rows[j] + tile.offset; }, tile.count,
          a.scale, scores + h * stride + tile.begin);
    }
  });
  for (int64_t h = 0; h < heads; ++h)
    scores[h * stride + count] = softmax(a, row, count, first + h, scores + h * stride);
  for_tiles(a, entries, count, a.key_heads * a.d_k + key_head * a.d_v, a.d_v, memory,
            [&](const PositionTile& tile) HWY_ATTR {
              for (int64_t h = 0; h < heads; ++h)
                mix(a, tile, scores + h * stride + tile.begin, output + h * a.d_v);
            });
  for (int64_t h = 0; h < heads; ++h) {
    const float factor = scores[h * stride + count];
    float* const own = output + h * a.d_v;
    std::transform(own, own + a.d_v, own, [factor](float sum) { return sum * factor; });
  }
}

}  // namespace
}  // namespace qkv::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qkv::kernels::cpu {

HWY_EXPORT(attend_heads);

void attention_cached(const CachedAttention& attention) {
  const int64_t rows = std::ssize(attention.rows);
  std::vector<int64_t> first_entry(attention.rows.size());
  int64_t positions = 0;
  for (int64_t row = 0; row < rows; ++row) {
    first_entry[static_cast<size_t>(row)] = positions;
    positions += std::ssize(attention.rows[static_cast<size_t>(row)].numbers);
  }
  // The numbers of all rows as addresses, once for all heads.
  const auto entries = std::make_unique_for_overwrite<const void*[]>(static_cast<size_t>(positions));
  for (auto to = entries.get(); const CacheRow& row : attention.rows) {
    for (size_t i = 0; i < row.numbers.size(); ++i) *to++ = cache_entry(row, i, attention.entry_bytes());
  }
  const int64_t width = attention.d_k + attention.d_v;
  // Each task has a row and, where entries must be widened, all heads of a key head, or a part of them
  // if there are more threads than key heads.
  const int64_t group = attention.heads / attention.key_heads, pairs = rows * attention.key_heads;
  const int64_t parts = attention.dtype == DType::f32 || pairs == 0
                            ? group
                            : std::clamp<int64_t>((threads() + pairs - 1) / pairs, 1, group);
  const int64_t heads = (group + parts - 1) / parts;
  // Waking a thread pays off from about ten microseconds of work.
  const int64_t of_one = std::max<int64_t>(1, positions / std::max<int64_t>(1, rows) * width * heads);
  const int64_t grain = std::max<int64_t>(1, 65536 / of_one);
  parallel_for(pairs * parts, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i % parts * heads, count = std::min(heads, group - first);
      if (count <= 0) continue;
      const int64_t pair = i / parts, key_head = pair % attention.key_heads, row = pair / attention.key_heads;
      HWY_DYNAMIC_DISPATCH(attend_heads)
      (attention, entries.get() + first_entry[static_cast<size_t>(row)], row, key_head * group + first,
       count);
    }
  });
}

}  // namespace qkv::kernels::cpu
#endif  // HWY_ONCE
