#pragma once
// Attention in tiles by matrix instructions, after FlashAttention-2 (Dao 2023): a block has 64 rows of a
// head, 16 a warp, and passes over the other side 32 rows at a time, from the start of the sequence, so that
// the order of sums follows from the sequence alone. Numbers of f32 are multiplied in three parts of bf16,
// those of bf16 as they are. Here, what the forward and the backward pass share.

#include <algorithm>
#include <initializer_list>
#include <vector>

#include "qkv/kernels/cuda/attention.h"
#include "qkv/kernels/cuda/parts.h"
#include "qkv/kernels/cuda/tiles.h"

namespace qkv::kernels::cuda {

inline constexpr int kWarps = kThreads / Thread::kLanes;
inline constexpr int kRows = kWarps * kWarpRows;  // of a block
inline constexpr int kCols = kTileColumns;        // of the other side at a time
#ifdef __CUDA_ARCH__
inline constexpr int kOwnWarps = 1;
#else
inline constexpr int kOwnWarps = kWarps;  // the host's thread is all of them
#endif

// The first row of a block within its sequence.
struct Tile {
  int32_t sequence, first;
};

// All tiles of the sequences.
inline Array<Tile> tiles_of(const int32_t* offsets, int64_t sequences, int64_t* count) {
  std::vector<Tile> tiles;
  for (int64_t i = 0; i < sequences; ++i) {
    for (int32_t first = 0; first < offsets[i + 1] - offsets[i]; first += kRows)
      tiles.push_back({static_cast<int32_t>(i), first});
  }
  *count = std::ssize(tiles);
  return Array<Tile>(std::span<const Tile>(tiles));
}

// Heads of a matrix in bf16: [parts, rows, stride].
struct Heads {
  const uint16_t* numbers;
  int64_t part_size, stride;
  int width;     // of a head
  bool aligned;  // heads are whole groups of 16 bytes
};

inline Heads heads_of(const Parts& parts, int64_t rows, int64_t heads, int64_t width) {
  const bool aligned =
      rows_are_aligned(parts.part(0), bytes_of(DType::bf16, parts.stride())) && width % kEight == 0;
  return {parts.part(0), rows * heads * width, parts.stride(), static_cast<int>(width), aligned};
}

// Queries, keys and values in bf16.
struct Inputs {
  Inputs(const Placed& placed, const AttentionInput& in, int parts)
      : key_heads(placed.shape.key_heads > 0 ? placed.shape.key_heads : placed.shape.heads),
        query_parts({in.query, placed.query_tokens, placed.shape.heads * placed.shape.d_k, in.query_stride},
                    parts),
        key_parts({in.key, placed.key_tokens, key_heads * placed.shape.d_k, in.key_stride}, parts),
        value_parts({in.value, placed.key_tokens, key_heads * placed.shape.d_v, in.value_stride}, parts),
        query(heads_of(query_parts, placed.query_tokens, placed.shape.heads, placed.shape.d_k)),
        key(heads_of(key_parts, placed.key_tokens, key_heads, placed.shape.d_k)),
        value(heads_of(value_parts, placed.key_tokens, key_heads, placed.shape.d_v)) {}

  int64_t key_heads;
  Parts query_parts, key_parts, value_parts;
  Heads query, key, value;
};

// Rows of a head in shared memory: [parts, rows, kStride], zeros beyond the head's width and the rows that
// exist. The stride avoids conflicts of banks, and is a multiple of 16 bytes.
template <int d, int parts, int rows>
struct Loaded {
  static constexpr int kStride = d + 8;
  static constexpr size_t kBytes = sizeof(uint16_t) * parts * rows * kStride;

  uint16_t* numbers;

  QKV_DEVICE const uint16_t* at(int part, int row, int col) const {
    return numbers + (part * rows + row) * kStride + col;
  }

  // Rows from `first` on, of which `exist` exist, and columns from `first_col` on.
  QKV_DEVICE void load(const Thread& thread, const Heads& from, int64_t head, int64_t first, int64_t exist,
                       int first_col = 0) const {
    constexpr int kGroups = d / kEight;
    for (int i = thread.index; i < parts * rows * kGroups; i += thread.count) {
      const int col = i % kGroups * kEight, row = i / kGroups % rows, part = i / kGroups / rows;
      const int rest = from.width - first_col - col;  // columns that exist
      SixteenBytes bytes{};
      const uint16_t* const source = from.numbers + part * from.part_size + (first + row) * from.stride +
                                     head * from.width + first_col + col;
      if (row < exist && from.aligned) {
        if (rest > 0) bytes = *reinterpret_cast<const SixteenBytes*>(source);
      } else if (row < exist) {
        for (int j = 0; j < kEight && j < rest; ++j)
          bytes.words[j / 2] |= static_cast<uint32_t>(source[j]) << (j % 2 * 16);
      }
      *reinterpret_cast<SixteenBytes*>(numbers + (part * rows + row) * kStride + col) = bytes;
    }
  }
};

// sums += the products of a warp's rows with all columns, rows x^T, where x has the columns of the rows from
// `first_col` on.
template <int d, int columns, int parts>
QKV_DEVICE void add_products(const Thread& thread, const Loaded<d, parts, kRows>& rows, int warp,
                             int first_col, const Loaded<columns, parts, kCols>& x, Sums<kCols>& sums) {
  Thread::synchronise_warp();  // matrix instructions are those of all lanes
  QKV_UNROLL for (int k = 0; k < columns; k += kDepth) {
    QKV_UNROLL for (int i = 0; i < parts; ++i) {
      const Left left = left_at(thread, rows.at(i, warp * kWarpRows, first_col + k), rows.kStride);
      QKV_UNROLL for (int j = 0; j < parts - i; ++j)
          multiply_transposed(thread, left, x.at(j, 0, k), x.kStride, sums);
    }
  }
}

// sums += weights x
template <int columns, int parts>
QKV_DEVICE void add_weighted(const Thread& thread, const Sums<kCols>& weights,
                             const Loaded<columns, parts, kCols>& x, Sums<columns>& sums) {
  Thread::synchronise_warp();
  QKV_UNROLL for (int chunk = 0; chunk < kCols / kDepth; ++chunk) {
    QKV_UNROLL for (int i = 0; i < parts; ++i) {
      const Left left = left_of(weights, chunk, i);
      QKV_UNROLL for (int j = 0; j < parts - i; ++j)
          multiply(thread, left, x.at(j, chunk * kDepth, 0), x.kStride, sums);
    }
  }
}

// Rows of the other side, from a multiple of kCols on.
struct Range {
  int64_t begin, end;
};
QKV_DEVICE inline Range range_of(int64_t begin, int64_t end, int64_t count) {
  return {begin < 0 ? 0 : begin / kCols * kCols, end < count ? end : count};
}

// The keys that queries `first` to `last` of a sequence may attend to, and the queries that may attend to
// keys `first` to `last`.
QKV_DEVICE inline Range keys_of(const AttentionShape& s, const Row& row, int64_t first, int64_t last) {
  const int64_t shift = -distance(s, row, 0) - row.query;  // of a query's position
  return range_of(s.window > 0 ? first + shift - s.window + 1 : 0,
                  s.causal       ? last + shift + 1
                  : s.window > 0 ? last + shift + s.window
                                 : row.keys,
                  row.keys);
}
QKV_DEVICE inline Range queries_of(const AttentionShape& s, const Row& row, int64_t first, int64_t last) {
  const int64_t shift = -distance(s, row, 0) - row.query;
  return range_of(s.causal       ? first - shift
                  : s.window > 0 ? first - shift - s.window + 1
                                 : 0,
                  s.window > 0 ? last - shift + s.window : row.queries, row.queries);
}

// The queries of a block, and the keys that they may attend to.
struct QueryBlock {
  Row row;  // the first
  int64_t first, count;
  Range keys;
};
QKV_DEVICE inline QueryBlock query_block(const AttentionShape& s, const Tile* tiles, int64_t block) {
  const Tile tile = tiles[block / s.heads];
  const Row row = row_of(s, tile.sequence, block % s.heads, s.query_offsets[tile.sequence] + tile.first);
  const int64_t rest = row.queries - tile.first, count = rest < kRows ? rest : kRows;
  return {row, tile.first, count, keys_of(s, row, tile.first, tile.first + count - 1)};
}

QKV_DEVICE inline bool attends(const AttentionShape& s, const Row& row, int64_t key) {
  return row.query < row.queries && key < row.keys && allowed(s, row, key);
}

// Whether one part in bf16 is enough of each of the operands.
inline bool has_one_part(const AttentionShape& s, std::initializer_list<Elements> operands) {
  return s.operands == DType::bf16 ||
         std::ranges::all_of(operands, [](const Elements& x) { return x.dtype == DType::bf16; });
}

inline constexpr int kWidest = 128;  // of the columns of a block: registers are limited

// Calls run<d, columns, parts>() for the narrowest tiles that hold the heads; false if there are none.
template <class Run>
bool with_tiles(const AttentionShape& s, bool one_part, const Run& run) {
  const int64_t width = std::max(s.d_k, s.d_v);
  const auto one = [&]<int d>() {
    if (width > d) return false;
    constexpr int kColumns = d < kWidest ? d : kWidest;
    if (one_part) {
      run.template operator()<d, kColumns, 1>();
    } else {
      run.template operator()<d, kColumns, kExactParts>();
    }
    return true;
  };
  return one.template operator()<32>() || one.template operator()<64>() ||
         one.template operator()<kWidest>() || one.template operator()<2 * kWidest>();
}

}  // namespace qkv::kernels::cuda
