// Attention in tiles by matrix instructions, after FlashAttention-2 (Dao 2023): a block has 64 rows of a
// head, 16 a warp, and passes over the other side 32 rows at a time, from the start of the sequence, so that
// the order of sums follows from the sequence alone. Numbers of f32 are multiplied in three parts of bf16,
// those of bf16 as they are.

#include <algorithm>
#include <initializer_list>
#include <vector>

#include "qkv/kernels/cuda/attention.h"
#include "qkv/kernels/cuda/parts.h"
#include "qkv/kernels/cuda/tiles.h"

namespace qkv::kernels::cuda {
namespace {

constexpr int kWarps = kThreads / Thread::kLanes;
constexpr int kRows = kWarps * kWarpRows;  // of a block
constexpr int kCols = kTileColumns;        // of the other side at a time
#ifdef __CUDA_ARCH__
constexpr int kOwnWarps = 1;
#else
constexpr int kOwnWarps = kWarps;  // the host's thread is all of them
#endif

// The first row of a block within its sequence.
struct Tile {
  int32_t sequence, first;
};

// All tiles of the sequences.
Array<Tile> tiles_of(const int32_t* offsets, int64_t sequences, int64_t* count) {
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

Heads heads_of(const Parts& parts, int64_t rows, int64_t heads, int64_t width) {
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
QKV_DEVICE Range range_of(int64_t begin, int64_t end, int64_t count) {
  return {begin < 0 ? 0 : begin / kCols * kCols, end < count ? end : count};
}

// The keys that queries `first` to `last` of a sequence may attend to, and the queries that may attend to
// keys `first` to `last`.
QKV_DEVICE Range keys_of(const AttentionShape& s, const Row& row, int64_t first, int64_t last) {
  const int64_t shift = -distance(s, row, 0) - row.query;  // of a query's position
  return range_of(s.window > 0 ? first + shift - s.window + 1 : 0,
                  s.causal       ? last + shift + 1
                  : s.window > 0 ? last + shift + s.window
                                 : row.keys,
                  row.keys);
}
QKV_DEVICE Range queries_of(const AttentionShape& s, const Row& row, int64_t first, int64_t last) {
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
QKV_DEVICE QueryBlock query_block(const AttentionShape& s, const Tile* tiles, int64_t block) {
  const Tile tile = tiles[block / s.heads];
  const Row row = row_of(s, tile.sequence, block % s.heads, s.query_offsets[tile.sequence] + tile.first);
  const int64_t rest = row.queries - tile.first, count = rest < kRows ? rest : kRows;
  return {row, tile.first, count, keys_of(s, row, tile.first, tile.first + count - 1)};
}

QKV_DEVICE bool attends(const AttentionShape& s, const Row& row, int64_t key) {
  return row.query < row.queries && key < row.keys && allowed(s, row, key);
}

// A warp's rows during the forward pass.
template <int d>
struct Softmax {
  static constexpr int kOwnRows = Sums<d>::kOwnRows;
  Sums<d> output;
  float largest[kOwnRows];      // so far, of the scores and the sink
  float largest_key[kOwnRows];  // of the scores
  float total[kOwnRows];        // sum of exp(score - largest)
};

// Heads of up to d columns, of whose output a block computes `columns`; where these are not all, keys are
// loaded by as many columns at a time, as shared memory is limited.
template <int d, int columns, int parts>
void forward(const Placed& placed, const AttentionInput& in, const AttentionOutput& to) {
  const AttentionShape s = placed.shape;
  const int64_t tokens = placed.query_tokens;
  const Inputs inputs(placed, in, parts);
  const Heads queries = inputs.query, keys = inputs.key, values = inputs.value;
  int64_t tile_count = 0;
  const Array<Tile> tile_array = tiles_of(placed.host_query_offsets, s.sequences, &tile_count);
  const Tile* const tiles = tile_array.data();
  using Rows = Loaded<d, parts, kRows>;
  using Columns = Loaded<columns, parts, kCols>;
  constexpr int kSlices = d / columns;

  launch(
      tile_count * s.heads * kSlices,
      [=] QKV_DEVICE(const Thread& thread) {
        const Rows q{reinterpret_cast<uint16_t*>(thread.shared)};
        const Columns k{reinterpret_cast<uint16_t*>(thread.shared + Rows::kBytes)},
            v{reinterpret_cast<uint16_t*>(thread.shared + Rows::kBytes + Columns::kBytes)};
        const int first_col = static_cast<int>(thread.block % kSlices) * columns;
        const QueryBlock block = query_block(s, tiles, thread.block / kSlices);
        const Row row = block.row;
        const int64_t head = row.head, first_row = row.query_row;
        q.load(thread, queries, head, first_row, block.count);

        Softmax<columns> own[kOwnWarps];
        for (Softmax<columns>& one : own) {
          for (int slot = 0; slot < Softmax<columns>::kOwnRows; ++slot) {
            one.largest_key[slot] = -INFINITY;
            one.largest[slot] = s.sinks != nullptr ? s.sinks[head] : -INFINITY;
            one.total[slot] = s.sinks != nullptr ? 1.0f : 0.0f;
          }
        }
        for (int64_t begin = block.keys.begin; begin < block.keys.end; begin += kCols) {
          Sums<kCols> all_scores[kOwnWarps];
          QKV_UNROLL for (int slice = 0; slice < kSlices; ++slice) {
            thread.synchronise();
            k.load(thread, keys, row.key_head, row.first_key_row + begin, row.keys - begin, slice * columns);
            if (slice == 0)
              v.load(thread, values, row.key_head, row.first_key_row + begin, row.keys - begin, first_col);
            thread.synchronise();
            for (int w = 0; w < kOwnWarps; ++w) {
              const int warp = thread.warp() + w;
              if (block.first + warp * kWarpRows < row.queries)
                add_products(thread, q, warp, slice * columns, k, all_scores[w]);
            }
          }
          for (int w = 0; w < kOwnWarps; ++w) {
            const int warp = thread.warp() + w;
            const int64_t first = block.first + warp * kWarpRows;
            if (first >= row.queries) continue;
            Softmax<columns>& one = own[w];
            Sums<kCols>& scores = all_scores[w];
            float most[Sums<kCols>::kOwnRows];
            for (float& x : most) x = -INFINITY;
            QKV_UNROLL for (int i = 0; i < scores.kOwn; ++i) {
              const int slot = scores.slot(i);
              Row query = row;
              query.query = first + scores.row_of_slot(thread, slot);
              query.query_row = row.query_row + query.query - block.first;
              const int64_t key = begin + scores.col(thread, i);
              float& score = scores.values[i];
              score = attends(s, query, key) ? score_of(s, query, key, score) : -INFINITY;
              if (score > most[slot]) most[slot] = score;
            }
            float factor[Sums<kCols>::kOwnRows], base[Sums<kCols>::kOwnRows], sum[Sums<kCols>::kOwnRows];
            QKV_UNROLL for (int slot = 0; slot < scores.kOwnRows; ++slot) {
              const float found = row_maximum(most[slot]);
              if (found > one.largest_key[slot]) one.largest_key[slot] = found;
              const float largest = found > one.largest[slot] ? found : one.largest[slot];
              base[slot] = largest == -INFINITY ? 0 : largest;
              factor[slot] = ::expf(one.largest[slot] - base[slot]);
              one.largest[slot] = largest;
              sum[slot] = 0;
            }
            QKV_UNROLL for (int i = 0; i < scores.kOwn; ++i) {
              const int slot = scores.slot(i);
              float& weight = scores.values[i];
              weight = ::expf(weight - base[slot]);
              sum[slot] += weight;
              if (s.dropout.active()) {
                Row query = row;
                query.query_row = first_row + warp * kWarpRows + scores.row_of_slot(thread, slot);
                weight *= dropped(s, query, begin + scores.col(thread, i));
              }
            }
            QKV_UNROLL for (int slot = 0; slot < scores.kOwnRows; ++slot) one.total[slot] =
                one.total[slot] * factor[slot] + row_sum(sum[slot]);
            QKV_UNROLL for (int i = 0; i < one.output.kOwn; ++i) one.output.values[i] *=
                factor[one.output.slot(i)];
            add_weighted(thread, scores, v, one.output);
          }
        }
        for (int w = 0; w < kOwnWarps; ++w) {
          const Softmax<columns>& one = own[w];
          const int first = (thread.warp() + w) * kWarpRows;
          const auto exists = [&](int slot) {
            return block.first + first + one.output.row_of_slot(thread, slot) < row.queries;
          };
          // A row without a key; one of NaN is none.
          const auto is_empty = [&](int slot) {
            return one.largest_key[slot] == -INFINITY && one.total[slot] == one.total[slot];
          };
          QKV_UNROLL for (int i = 0; i < one.output.kOwn; ++i) {
            const int slot = one.output.slot(i), col = first_col + one.output.col(thread, i);
            if (!exists(slot) || col >= s.d_v) continue;
            const int64_t query_row = first_row + first + one.output.row_of_slot(thread, slot);
            put(to.output, query_row * to.output_stride + head * s.d_v + col,
                is_empty(slot) ? 0 : one.output.values[i] / one.total[slot]);
          }
          QKV_UNROLL for (int slot = 0; slot < one.kOwnRows; ++slot) {
            if (to.log_sum_exp == nullptr || !exists(slot) || first_col + one.output.col(thread, 0) != 0)
              continue;
            const int64_t query_row = first_row + first + one.output.row_of_slot(thread, slot);
            to.log_sum_exp[head * tokens + query_row] =
                is_empty(slot) ? -INFINITY : one.largest[slot] + ::logf(one.total[slot]);
          }
        }
      },
      Rows::kBytes + 2 * Columns::kBytes);
}

// A pair's weight before dropout, given the row's log_sum_exp, and the gradient of q k.
struct PairGradient {
  float weight, product;
};
QKV_DEVICE PairGradient gradient_of(const AttentionShape& s, const Row& row, int64_t key, float product,
                                    float log_sum, float mean, float d_weight, float dropout) {
  if (!attends(s, row, key) || log_sum == -INFINITY) return {0, 0};
  float slope = 0;
  const float weight = ::expf(score_of(s, row, key, product, &slope) - log_sum);
  return {weight * dropout, weight * (d_weight * dropout - mean) * slope};
}

// Heads of up to d columns, of whose gradients a block computes `columns`. Where these are not all, each side
// is loaded by as many columns at a time, the block's own last, as these are needed again.
template <int d, int columns, int parts>
void backward(const Placed& placed, const AttentionInput& in, const float* log_sum_exp, const float* means,
              const Elements& d_output, int64_t d_output_stride, const AttentionGradients& to) {
  const AttentionShape s = placed.shape;
  const Inputs inputs(placed, in, parts);
  const Heads queries = inputs.query, keys = inputs.key, values = inputs.value;
  const int64_t key_heads = inputs.key_heads, group = s.heads / key_heads, tokens = placed.query_tokens;
  const Parts gradient_parts({d_output, tokens, s.heads * s.d_v, d_output_stride}, parts);
  const Heads gradients = heads_of(gradient_parts, tokens, s.heads, s.d_v);
  using Rows = Loaded<columns, parts, kRows>;
  using Columns = Loaded<columns, parts, kCols>;
  constexpr size_t kBytes = 2 * Rows::kBytes + 2 * Columns::kBytes;
  constexpr int kSlices = d / columns;

  if (to.query != nullptr) {
    int64_t tile_count = 0;
    const Array<Tile> tile_array = tiles_of(placed.host_query_offsets, s.sequences, &tile_count);
    const Tile* const tiles = tile_array.data();
    launch(
        tile_count * s.heads * kSlices,
        [=] QKV_DEVICE(const Thread& thread) {
          const Rows q{reinterpret_cast<uint16_t*>(thread.shared)},
              d_o{reinterpret_cast<uint16_t*>(thread.shared + Rows::kBytes)};
          std::byte* const rest = thread.shared + 2 * Rows::kBytes;
          const Columns k{reinterpret_cast<uint16_t*>(rest)},
              v{reinterpret_cast<uint16_t*>(rest + Columns::kBytes)};
          const int first_col = static_cast<int>(thread.block % kSlices) * columns;
          const QueryBlock block = query_block(s, tiles, thread.block / kSlices);
          const Row row = block.row;
          const int64_t head = row.head, first_row = row.query_row;
          Sums<columns> sums[kOwnWarps];
          for (int64_t begin = block.keys.begin; begin < block.keys.end; begin += kCols) {
            Sums<kCols> products_of[kOwnWarps], d_weights_of[kOwnWarps];
            QKV_UNROLL for (int slice = 1; slice <= kSlices; ++slice) {
              const int col = (first_col + slice * columns) % d;
              thread.synchronise();
              if (kSlices > 1 || begin == block.keys.begin) {
                q.load(thread, queries, head, first_row, block.count, col);
                d_o.load(thread, gradients, head, first_row, block.count, col);
              }
              k.load(thread, keys, row.key_head, row.first_key_row + begin, row.keys - begin, col);
              v.load(thread, values, row.key_head, row.first_key_row + begin, row.keys - begin, col);
              thread.synchronise();
              for (int w = 0; w < kOwnWarps; ++w) {
                const int warp = thread.warp() + w;
                if (block.first + warp * kWarpRows >= row.queries) continue;
                add_products(thread, q, warp, 0, k, products_of[w]);
                add_products(thread, d_o, warp, 0, v, d_weights_of[w]);
              }
            }
            for (int w = 0; w < kOwnWarps; ++w) {
              const int64_t first = block.first + (thread.warp() + w) * kWarpRows;
              if (first >= row.queries) continue;
              Sums<kCols>& scores = products_of[w];
              const Sums<kCols>& d_weights = d_weights_of[w];
              QKV_UNROLL for (int i = 0; i < scores.kOwn; ++i) {
                Row query = row;
                query.query = first + scores.row_of_slot(thread, scores.slot(i));
                query.query_row = row.query_row + query.query - block.first;
                const bool exists = query.query < row.queries;
                const int64_t key = begin + scores.col(thread, i), number = head * tokens + query.query_row;
                scores.values[i] =
                    gradient_of(s, query, key, scores.values[i], exists ? log_sum_exp[number] : 0,
                                exists ? means[number] : 0, d_weights.values[i], dropped(s, query, key))
                        .product;
              }
              add_weighted(thread, scores, k, sums[w]);
            }
          }
          for (int w = 0; w < kOwnWarps; ++w) {
            const int64_t first = (thread.warp() + w) * kWarpRows;
            QKV_UNROLL for (int i = 0; i < sums[w].kOwn; ++i) {
              const int64_t own = first + sums[w].row_of_slot(thread, sums[w].slot(i));
              const int col = first_col + sums[w].col(thread, i);
              if (block.first + own < row.queries && col < s.d_k)
                put(to.query, (first_row + own) * to.query_stride + head * s.d_k + col, sums[w].values[i],
                    to.query_accumulate);
            }
          }
        },
        kBytes);
  }

  if (to.key == nullptr && to.value == nullptr) return;
  int64_t tile_count = 0;
  const Array<Tile> tile_array = tiles_of(placed.host_key_offsets, s.sequences, &tile_count);
  const Tile* const tiles = tile_array.data();
  launch(
      tile_count * key_heads * kSlices,
      [=] QKV_DEVICE(const Thread& thread) {
        const Rows k{reinterpret_cast<uint16_t*>(thread.shared)},
            v{reinterpret_cast<uint16_t*>(thread.shared + Rows::kBytes)};
        std::byte* const rest = thread.shared + 2 * Rows::kBytes;
        const Columns q{reinterpret_cast<uint16_t*>(rest)},
            d_o{reinterpret_cast<uint16_t*>(rest + Columns::kBytes)};
        const int first_col = static_cast<int>(thread.block % kSlices) * columns;
        const int64_t number_of_block = thread.block / kSlices;
        const Tile tile = tiles[number_of_block / key_heads];
        const int64_t key_head = number_of_block % key_heads;
        const int64_t first_query = s.query_offsets[tile.sequence];
        const Row any = row_of(s, tile.sequence, key_head * group, first_query);
        const int64_t first_key_row = any.first_key_row + tile.first;
        const int64_t last = (tile.first + kRows < any.keys ? tile.first + kRows : any.keys) - 1;
        const Range range = queries_of(s, any, tile.first, last);
        Sums<columns> d_keys[kOwnWarps], d_values[kOwnWarps];
        for (int64_t head = key_head * group; head < (key_head + 1) * group; ++head) {
          for (int64_t begin = range.begin; begin < range.end; begin += kCols) {
            // Transposed: a row is a key.
            Sums<kCols> products_of[kOwnWarps], weights_of[kOwnWarps];
            QKV_UNROLL for (int slice = 1; slice <= kSlices; ++slice) {
              const int col = (first_col + slice * columns) % d;
              thread.synchronise();
              if (kSlices > 1 || (begin == range.begin && head == key_head * group)) {
                k.load(thread, keys, key_head, first_key_row, any.keys - tile.first, col);
                v.load(thread, values, key_head, first_key_row, any.keys - tile.first, col);
              }
              q.load(thread, queries, head, first_query + begin, any.queries - begin, col);
              d_o.load(thread, gradients, head, first_query + begin, any.queries - begin, col);
              thread.synchronise();
              for (int w = 0; w < kOwnWarps; ++w) {
                const int warp = thread.warp() + w;
                if (tile.first + warp * kWarpRows >= any.keys) continue;
                add_products(thread, k, warp, 0, q, products_of[w]);
                add_products(thread, v, warp, 0, d_o, weights_of[w]);
              }
            }
            for (int w = 0; w < kOwnWarps; ++w) {
              const int64_t first = tile.first + (thread.warp() + w) * kWarpRows;
              if (first >= any.keys) continue;
              Sums<kCols>&scores = products_of[w], &weights = weights_of[w];
              QKV_UNROLL for (int i = 0; i < scores.kOwn; ++i) {
                Row query = any;
                query.head = head;
                query.query = begin + scores.col(thread, i);
                query.query_row = first_query + query.query;
                const bool exists = query.query < any.queries;
                const int64_t key = first + scores.row_of_slot(thread, scores.slot(i)),
                              number = head * tokens + query.query_row;
                const PairGradient own =
                    gradient_of(s, query, key, scores.values[i], exists ? log_sum_exp[number] : 0,
                                exists ? means[number] : 0, weights.values[i], dropped(s, query, key));
                scores.values[i] = own.product;
                weights.values[i] = own.weight;
              }
              add_weighted(thread, weights, d_o, d_values[w]);
              add_weighted(thread, scores, q, d_keys[w]);
            }
          }
        }
        for (int w = 0; w < kOwnWarps; ++w) {
          const int64_t first = (thread.warp() + w) * kWarpRows;
          QKV_UNROLL for (int i = 0; i < d_keys[w].kOwn; ++i) {
            const int64_t own = first + d_keys[w].row_of_slot(thread, d_keys[w].slot(i));
            const int col = first_col + d_keys[w].col(thread, i);
            if (tile.first + own >= any.keys) continue;
            if (to.key != nullptr && col < s.d_k)
              put(to.key, (first_key_row + own) * to.key_stride + key_head * s.d_k + col, d_keys[w].values[i],
                  to.key_accumulate);
            if (to.value != nullptr && col < s.d_v)
              put(to.value, (first_key_row + own) * to.value_stride + key_head * s.d_v + col,
                  d_values[w].values[i], to.value_accumulate);
          }
        }
      },
      kBytes);
}

// Whether one part in bf16 is enough of each of the operands.
bool has_one_part(const AttentionShape& s, std::initializer_list<Elements> operands) {
  return s.operands == DType::bf16 ||
         std::ranges::all_of(operands, [](const Elements& x) { return x.dtype == DType::bf16; });
}

constexpr int kWidest = 128;  // of the columns of a block: registers are limited

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

}  // namespace

bool attention_forward_in_tiles(const Placed& placed, const AttentionInput& in, const AttentionOutput& to) {
  return with_tiles(placed.shape, has_one_part(placed.shape, {in.query, in.key, in.value}),
                    [&]<int d, int columns, int parts>() { forward<d, columns, parts>(placed, in, to); });
}

bool attention_backward_in_tiles(const Placed& placed, const AttentionInput& in, const float* log_sum_exp,
                                 const float* means, const Elements& d_output, int64_t d_output_stride,
                                 const AttentionGradients& to) {
  return with_tiles(placed.shape, has_one_part(placed.shape, {in.query, in.key, in.value, d_output}),
                    [&]<int d, int columns, int parts>() {
                      backward<d, columns, parts>(placed, in, log_sum_exp, means, d_output, d_output_stride,
                                                  to);
                    });
}

}  // namespace qkv::kernels::cuda
