// The gradients in tiles.

#include "qkv/kernels/cuda/attention_tiles.h"

namespace qkv::kernels::cuda {
namespace {

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

}  // namespace

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
