// The forward pass in tiles.

#include "qkv/kernels/cuda/attention_tiles.h"

namespace qkv::kernels::cuda {
namespace {

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

}  // namespace

bool attention_forward_in_tiles(const Placed& placed, const AttentionInput& in, const AttentionOutput& to) {
  return with_tiles(placed.shape, has_one_part(placed.shape, {in.query, in.key, in.value}),
                    [&]<int d, int columns, int parts>() { forward<d, columns, parts>(placed, in, to); });
}

}  // namespace qkv::kernels::cuda
