// What happens to a tile of scores: masks, softmax, dropout. Included once for every target of Highway.
//
// A tile is transposed: row j holds key j's scores with the queries, which are the lanes. So every query's
// softmax runs down a lane, and keys and values are read where they lie.

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

#include "qkv/kernels/attention.h"
#include "qkv/kernels/cpu/attention_tasks.h"
#include "qkv/kernels/cpu/exponential-inl.h"
#include "qkv/kernels/cpu/philox-inl.h"
#include "qkv/kernels/cpu/row-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::kernels::HWY_NAMESPACE {

inline constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// Rows of a tile, and of everything else that has queries in its lanes, are this far apart.
inline constexpr int64_t kTileStride = kTileQueries;

// Queries by keys, both counted within the sequence.
struct ScoreTile {
  int64_t query, queries;
  int64_t key, keys;
};

HWY_INLINE int64_t lanes_of(Floats d) { return static_cast<int64_t>(hn::Lanes(d)); }
HWY_INLINE int64_t vectors_for(Floats d, int64_t count) { return (count + lanes_of(d) - 1) / lanes_of(d); }

// Adds the bias, and puts -infinity where a query may not attend.
HWY_INLINE void mask_scores(Floats d, const AttentionShape& shape, const AttentionTask& task,
                            const AttentionHead& head, const ScoreTile& tile, float* HWY_RESTRICT scores) {
  const int64_t lanes = lanes_of(d), width = vectors_for(d, tile.queries) * lanes;
  const auto minus_infinity = hn::Set(d, kMinusInfinity);
  if (shape.bias.data != nullptr) {
    const float* bias = shape.bias.data + task.sequence * shape.bias.batch_stride +
                        task.head * shape.bias.head_stride + tile.query * shape.bias.query_stride + tile.key;
    if (shape.bias.query_stride == 0) {
      for (int64_t j = 0; j < tile.keys; ++j) {
        const auto v = hn::Set(d, bias[j]);
        float* row = scores + j * kTileStride;
        for (int64_t i = 0; i < width; i += lanes) hn::Store(hn::Add(hn::Load(d, row + i), v), d, row + i);
      }
    } else {
      for (int64_t i = 0; i < tile.queries; ++i, bias += shape.bias.query_stride) {
        for (int64_t j = 0; j < tile.keys; ++j) scores[j * kTileStride + i] += bias[j];
      }
    }
  }
  if (shape.keep.data != nullptr) {
    const uint8_t* keep = shape.keep.data + task.sequence * shape.keep.batch_stride +
                          task.head * shape.keep.head_stride + tile.query * shape.keep.query_stride +
                          tile.key;
    if (shape.keep.query_stride == 0) {
      for (int64_t j = 0; j < tile.keys; ++j) {
        if (keep[j] != 0) continue;
        for (int64_t i = 0; i < width; i += lanes) {
          hn::Store(minus_infinity, d, scores + j * kTileStride + i);
        }
      }
    } else {
      for (int64_t i = 0; i < tile.queries; ++i, keep += shape.keep.query_stride) {
        for (int64_t j = 0; j < tile.keys; ++j) {
          float& score = scores[j * kTileStride + i];
          score = keep[j] != 0 ? score : kMinusInfinity;
        }
      }
    }
  }
  if (head.key_limit(tile.query) < tile.key + tile.keys) {
    const hn::RebindToSigned<Floats> d32;
    const auto last_key = hn::Iota(d32, static_cast<int32_t>(tile.query + head.keys - head.queries));
    for (int64_t j = 0; j < tile.keys; ++j) {
      float* row = scores + j * kTileStride;
      for (int64_t i = 0; i < width; i += lanes) {
        const auto last = hn::Add(last_key, hn::Set(d32, static_cast<int32_t>(i)));
        const auto beyond = hn::RebindMask(d, hn::Lt(last, hn::Set(d32, static_cast<int32_t>(tile.key + j))));
        hn::Store(hn::IfThenElse(beyond, minus_infinity, hn::Load(d, row + i)), d, row + i);
      }
    }
  }
}

// The running state of the softmax of a tile's queries: the largest score so far and the sum of exp(score -
// largest); and by what a tile of keys has changed the scale, for what was summed up before.
struct SoftmaxState {
  float* largest;
  float* sum;
  float* factor;
};

// exp(x - shift) where the largest x is meant to become 1; shift is 0 where there was nothing but -infinity,
// so that this gives 0.
HWY_INLINE FloatVector shift_of(Floats d, FloatVector largest) {
  return hn::IfThenZeroElse(hn::Eq(largest, hn::Set(d, kMinusInfinity)), largest);
}

// Replaces the scores by exp(score - largest), and takes them into the state.
HWY_INLINE void softmax_tile(Floats d, const ScoreTile& tile, float* HWY_RESTRICT scores,
                             const SoftmaxState& state) {
  const int64_t lanes = lanes_of(d);
  for (int64_t i = 0; i < tile.queries; i += lanes) {
    float* column = scores + i;
    const auto before = hn::Load(d, state.largest + i);
    auto largest0 = before, largest1 = before;
    int64_t j = 0;
    for (; j + 2 <= tile.keys; j += 2) {
      largest0 = hn::Max(largest0, hn::Load(d, column + j * kTileStride));
      largest1 = hn::Max(largest1, hn::Load(d, column + (j + 1) * kTileStride));
    }
    if (j < tile.keys) largest0 = hn::Max(largest0, hn::Load(d, column + j * kTileStride));
    const auto largest = hn::Max(largest0, largest1);
    const auto shift = shift_of(d, largest);
    const auto factor = exponential(d, hn::Sub(before, shift));
    auto sum = hn::Zero(d);
    for (j = 0; j < tile.keys; ++j) {
      const auto e = exponential(d, hn::Sub(hn::Load(d, column + j * kTileStride), shift));
      sum = hn::Add(sum, e);
      hn::Store(e, d, column + j * kTileStride);
    }
    hn::Store(largest, d, state.largest + i);
    hn::Store(factor, d, state.factor + i);
    hn::Store(hn::MulAdd(hn::Load(d, state.sum + i), factor, sum), d, state.sum + i);
  }
}

// body(offset, kept) for the vectors of a tile: offset is where the vector lies in a tile, kept is a mask of
// the weights that dropout keeps. first_query and the tile's queries give the rows, as Dropout counts them.
template <class Body>
HWY_INLINE void for_kept(Floats d, const Dropout& dropout, int64_t head, int64_t first_query,
                         const ScoreTile& tile, const Body& body) {
  const hn::Rebind<uint32_t, Floats> du;
  const hn::Rebind<int32_t, Floats> d32;
  const int64_t lanes = lanes_of(d);
  const auto below = hn::Set(d32, static_cast<int32_t>(dropout.threshold()) - 1);
  const auto low = hn::Set(du, 0xFFFFu);
  for (int64_t i = 0; i < tile.queries; i += lanes) {
    const uint32_t row = dropout.first_row + static_cast<uint32_t>(first_query + tile.query + i);
    for (int64_t j = 0; j < tile.keys; j += 8) {
      const uint32_t block = static_cast<uint32_t>((head << 19) + (tile.key + j) / 8);
      hn::Vec<decltype(du)> words[4];
      philox_rows(du, dropout.seed, row, block, dropout.site, dropout.step, words);
      const int64_t count = std::min<int64_t>(8, tile.keys - j);
      for (int64_t k = 0; k < count; ++k) {
        const auto word = words[k / 2];
        const auto bits = hn::BitCast(d32, k % 2 == 0 ? hn::And(word, low) : hn::ShiftRight<16>(word));
        body((j + k) * kTileStride + i, hn::RebindMask(d, hn::Gt(bits, below)));
      }
    }
  }
}

}  // namespace qkv::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
