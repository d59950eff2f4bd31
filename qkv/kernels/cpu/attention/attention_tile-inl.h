// The scores of a tile of queries by keys: masks, softmax and dropout. Queries are rows, keys are lanes.
// Included once per Highway target.

#if defined(QKV_KERNELS_CPU_ATTENTION_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_KERNELS_CPU_ATTENTION_TILE_INL_H_
#undef QKV_KERNELS_CPU_ATTENTION_TILE_INL_H_
#else
#define QKV_KERNELS_CPU_ATTENTION_TILE_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "qkv/kernels/backend/attention.h"
#include "qkv/kernels/cpu/activation-inl.h"
#include "qkv/kernels/cpu/attention/attention_product-inl.h"
#include "qkv/kernels/cpu/attention/attention_tasks.h"
#include "qkv/kernels/cpu/dropout-inl.h"
#include "qkv/kernels/cpu/exponential-inl.h"
#include "qkv/kernels/cpu/row-inl.h"
// After highway.h.
#include <hwy/contrib/math/math-inl.h>

HWY_BEFORE_NAMESPACE();
namespace qkv::kernels::HWY_NAMESPACE {

inline constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

HWY_INLINE int64_t lanes_of(Floats d) { return static_cast<int64_t>(hn::Lanes(d)); }
HWY_INLINE int64_t vectors_for(Floats d, int64_t count) { return (count + lanes_of(d) - 1) / lanes_of(d); }
HWY_INLINE int64_t padded(int64_t count) { return (count + kLaneUnit - 1) / kLaneUnit * kLaneUnit; }

// Queries by keys, both counted within the sequence. Rows of scores are kTileKeys apart.
struct ScoreTile {
  int64_t query, queries;
  int64_t key, keys;
};

// The number of the tile's keys visible to query i.
HWY_INLINE int64_t seen_keys(const AttentionHead& head, const ScoreTile& tile, int64_t i) {
  return std::clamp<int64_t>(head.key_limit(i) - tile.key, 0, tile.keys);
}

// Splits a tile into groups of queries with equal numbers of visible lane units, so that causality and
// windows save work, and calls body(group); queries without visible keys are skipped. A group's `keys` are
// those visible to its last query.
template <class Body>
HWY_INLINE void for_causal_groups(const AttentionHead& head, const ScoreTile& tile, const Body& body) {
  const int64_t end = tile.query + tile.queries;
  if (!head.limited) {
    body(tile);
    return;
  }
  // Query i sees i + shift keys of the tile, clamped.
  const int64_t shift = head.position + 1 + head.ahead - tile.key;
  for (int64_t i = std::max(tile.query, 1 - shift); i < end;) {
    const int64_t seen = std::min(i + shift, tile.keys);
    const int64_t next = padded(seen) >= tile.keys ? end : std::min(end, padded(seen) - shift + 1);
    body(ScoreTile{i, next - i, tile.key, std::min(next - 1 + shift, tile.keys)});
    i = next;
  }
}

// Rows of the next task, prefetched one by one while this one computes: a head's part of a row is too short
// for the hardware prefetcher. Always inlined, because g++ removes calls of a function that only prefetches.
struct RowsAhead {
  const float* data = nullptr;
  int64_t stride = 0, rows = 0, cols = 0;

  HWY_INLINE void fetch(int64_t row) const {
    constexpr int64_t kLine = 16;  // floats
    if (row >= rows) return;
    for (int64_t j = 0; j < cols; j += kLine) __builtin_prefetch(data + row * stride + j, 0, 2);
  }
};

// Lanes that products may touch beyond a row's visible keys, because the last row of a block sees up to that
// many more.
inline constexpr int64_t kSlack = kMaxRows;

// Replaces scores s of a group by cap tanh(s / cap). `slopes`, unless null, gets the derivatives. Both have
// rows of kTileKeys.
HWY_INLINE void cap_scores(Floats d, float cap, const ScoreTile& group, float* HWY_RESTRICT scores,
                           float* HWY_RESTRICT slopes) {
  const auto caps = hn::Set(d, cap);
  for (int64_t i = 0; i < group.queries; ++i, scores += kTileKeys) {
    for (int64_t j = 0; j < padded(group.keys); j += lanes_of(d)) {
      const auto x = hn::Div(hn::Load(d, scores + j), caps);
      hn::Store(hn::Mul(caps, Tanh::value(d, x)), d, scores + j);
      if (slopes != nullptr) hn::Store(Tanh::derivative(d, x), d, slopes + i * kTileKeys + j);
    }
  }
}

// Adds biases, and sets masked scores to -infinity, for visible keys.
HWY_INLINE void mask_scores(Floats d, const AttentionShape& shape, int64_t sequence, int64_t query_head,
                            const AttentionHead& head, const ScoreTile& group, float* HWY_RESTRICT scores) {
  const ScoreBias& bias = shape.bias;
  const KeepMask& keep = shape.keep;
  const float* add = bias.data == nullptr ? nullptr
                                          : bias.data + sequence * bias.batch_stride +
                                                query_head * bias.head_stride + group.key;
  const uint8_t* allow = keep.data == nullptr ? nullptr
                                              : keep.data + sequence * keep.batch_stride +
                                                    query_head * keep.head_stride + group.key;
  const float slope = shape.alibi_slopes == nullptr ? 0.0f : shape.alibi_slopes[query_head];
  const RelativeBias& relative = shape.relative;
  const float* by_distance =
      relative.data == nullptr ? nullptr : relative.data + query_head * relative.head_stride + relative.zero;
  if (add == nullptr && by_distance == nullptr && allow == nullptr && slope == 0 && head.window == 0) return;
  const hn::Rebind<uint8_t, Floats> bytes;
  const hn::RebindToSigned<Floats> d32;
  const auto minus_infinity = hn::Set(d, kMinusInfinity), lane = hn::Iota(d, 0);
  for (int64_t i = 0; i < group.queries; ++i, scores += kTileKeys) {
    const int64_t query = group.query + i;
    // Distance of the group's first key after the query.
    const int64_t offset = group.key - (query + head.position);
    const int64_t before_window = head.key_begin(query) - group.key;
    for_vectors(d, seen_keys(head, group, query), [&](auto part, int64_t j) HWY_ATTR {
      auto v = hn::Load(d, scores + j);
      if (slope != 0) {
        const auto distance = hn::Abs(hn::Add(hn::Set(d, static_cast<float>(offset + j)), lane));
        v = hn::NegMulAdd(hn::Set(d, slope), distance, v);
      }
      if (by_distance != nullptr) v = hn::Add(v, load(d, by_distance + offset + j, part));
      if (add != nullptr) v = hn::Add(v, load(d, add + query * bias.query_stride + j, part));
      if (allow != nullptr) {
        uint8_t kept[HWY_MAX_BYTES] = {};
        int64_t count = lanes_of(d);
        if constexpr (std::is_same_v<decltype(part), Part>) count = static_cast<int64_t>(part.count);
        std::copy_n(allow + query * keep.query_stride + j, count, kept);
        const auto wide = hn::PromoteTo(d32, hn::LoadU(bytes, kept));
        v = hn::IfThenElse(hn::RebindMask(d, hn::Eq(wide, hn::Zero(d32))), minus_infinity, v);
      }
      if (j < before_window) {
        const auto outside = hn::Lt(lane, hn::Set(d, static_cast<float>(before_window - j)));
        v = hn::IfThenElse(outside, minus_infinity, v);
      }
      hn::Store(v, d, scores + j);
    });
  }
}

// For exp(x - shift) with a maximum of 1; shift is 0 if all scores are -infinity, so that the result is 0.
HWY_INLINE FloatVector shift_of(Floats d, FloatVector largest) {
  return hn::IfThenZeroElse(hn::Eq(largest, hn::Set(d, kMinusInfinity)), largest);
}

// log(x) for x >= 1e-30, with an absolute error of about 2e-7: a Newton step reduces the library's error of
// four units in the last place to that of exp().
HWY_INLINE FloatVector logarithm(Floats d, FloatVector x) {
  const auto y = hn::Log(d, x);
  return hn::Add(y, hn::MulSub(x, exponential_of_difference(d, hn::Neg(y)), hn::Set(d, 1.0f)));
}

// Clears the lanes that products may touch beyond the first `seen` scores of a row, up to `width`.
HWY_INLINE void clear_unseen(Floats d, int64_t seen, int64_t width, float* HWY_RESTRICT row) {
  const int64_t lanes = lanes_of(d), end = std::min(seen + kSlack, width);
  for (int64_t j = vectors_for(d, seen) * lanes; j < end; j += lanes) hn::Store(hn::Zero(d), d, row + j);
}

// The dropout bits of the weights of a tile, 16 each, with a row stride.
struct DropoutBits {
  uint16_t* bits;
  int64_t stride = 0;
};

// Draws the bits for a group's queries and keys. first_query: the sequence's first query row in the batch.
HWY_INLINE void draw_bits(const Dropout& dropout, int64_t query_head, int64_t first_query,
                          const ScoreTile& group, DropoutBits& to) {
  const int64_t blocks = (group.keys + 7) / 8;
  to.stride = blocks * 8;
  const uint32_t first_row = static_cast<uint32_t>(first_query + group.query);
  const uint32_t first_block = static_cast<uint32_t>((query_head << 19) + group.key / 8);
  draw_dropout_tile(dropout, first_row, group.queries, first_block, blocks, to.bits);
}

// The mask of kept weights of a vector. May read up to kTileKeys numbers past the end.
HWY_INLINE hn::Mask<Floats> kept_lanes(Floats d, const Dropout& dropout, const uint16_t* bits) {
  const hn::RebindToSigned<Floats> d32;
  const hn::Rebind<uint16_t, Floats> d16;
  const auto wide = hn::PromoteTo(d32, hn::LoadU(d16, bits));
  return hn::RebindMask(d, hn::Gt(wide, hn::Set(d32, static_cast<int32_t>(dropout.threshold()) - 1)));
}

}  // namespace qkv::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
