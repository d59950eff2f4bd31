#pragma once
// Scaled dot-product attention (Vaswani et al. 2017, equation 1): softmax(Q K^T scale + bias) V for each
// head, on ragged batches, tiled with an online softmax (Milakov and Gimelshein 2018; Dao et al. 2022): a
// matrix of queries by keys is never stored.

#include <cstdint>
#include <span>

#include "qkv/kernels/backend/elements.h"
#include "qkv/kernels/cache_block_table.h"
#include "qkv/kernels/dropout.h"
#include "qkv/kernels/kinds.h"
#include "qkv/tensor/dtype.h"

namespace qkv::kernels {

// Element (b, h, i, j) is data[b * batch_stride + h * head_stride + i * query_stride + j], with i and j
// counted within the sequence. A stride of 0 broadcasts.
struct KeepMask {
  const uint8_t* data = nullptr;  // null: no mask. Nonzero: query i may attend to key j.
  int64_t batch_stride = 0, head_stride = 0, query_stride = 0;
};

struct ScoreBias {
  const float* data = nullptr;  // null: no bias. Added to the scaled scores. -infinity masks.
  int64_t batch_stride = 0, head_stride = 0, query_stride = 0;
};

// A bias by distance (Raffel et al. 2020, section 2.1): data[h * head_stride + zero + n] is added to the
// score of a key n positions after the query (before it: n < 0), with positions as defined by Alignment.
struct RelativeBias {
  const float* data = nullptr;  // null: no bias
  int64_t head_stride = 0;
  int64_t zero = 0;
};

// Common to both directions. Head h of query row t is query[t * query_stride + h * d_k .. + d_k]; keys,
// values and outputs likewise (strides in elements), so that columns of a fused projection can be read in
// place. Query head h attends to key head h / (heads / key_heads) (grouped-query attention, Ainslie et al.
// 2023).
struct AttentionShape {
  int64_t sequences = 0;
  const int32_t* query_offsets = nullptr;  // [sequences + 1]
  const int32_t* key_offsets = nullptr;    // [sequences + 1]
  int64_t heads = 1;
  int64_t key_heads = 0;     // heads of keys and values, a divisor of heads; 0: same as heads
  int64_t d_k = 0, d_v = 0;  // per head
  float scale = 1;           // 1 / sqrt(d_k) in the paper
  // 0: off. Otherwise a scaled score s becomes softcap * tanh(s / softcap), before biases are added (Gemma
  // 2).
  float softcap = 0;
  // A query attends only to keys at or before its own position.
  bool causal = false;
  Alignment alignment = Alignment::last_key;  // defines positions for causal, ALiBi and the relative bias
  // Sliding window (Beltagy et al. 2020, section 3.1): a query attends to keys less than `window` positions
  // away, on both sides or, with causal attention, before it. 0: off.
  int64_t window = 0;
  // Sums over few queries of a sequence have another order than over many. If set, the order for many is
  // always used, so that a row's bits do not depend on the number of queries in the call.
  bool fixed_order = false;
  // f32, or bf16: products of the forward and the backward pass may round both sides to bf16. Sums are f32.
  DType operands = DType::f32;
  KeepMask keep = {};
  ScoreBias bias = {};
  // [heads], null: none. The score of a key at distance n is reduced by slope * n (ALiBi, Press et al. 2022).
  const float* alibi_slopes = nullptr;
  RelativeBias relative = {};
  // [heads], null: none. A score that takes part in each row's softmax and that no key and value belong to:
  // the weights of a row sum to less than 1 (attention sinks, as in gpt-oss).
  const float* sinks = nullptr;
  // Of the weights; row = query row in the batch, column = head * 2^22 + key within the sequence.
  Dropout dropout = {};

  int64_t query_heads_per_key() const { return key_heads > 0 ? heads / key_heads : 1; }
};

struct AttentionInput {
  Elements query = {}, key = {}, value = {};
  int64_t query_stride = 0, key_stride = 0, value_stride = 0;
};

// Optional outputs of the softmax, before dropout, written by recomputing the scores of the captured rows.
// Head h of query row t has the row number n = h * query tokens + t.
struct AttentionCapture {
  // The weights of row n over all keys of its sequence are written to weights[offsets[n] ...], its scores
  // (the softmax input; -infinity if masked) to scores[offsets[n] ...]. Null: neither is written.
  const int64_t* offsets = nullptr;
  float* weights = nullptr;
  float* scores = nullptr;
  // [n, top]: each row's largest weights in descending order (ties by earlier key), and their keys, counted
  // within the sequence. 0 and -1 beyond the number of nonzero weights.
  int64_t top = 0;
  float* top_weights = nullptr;
  int32_t* top_keys = nullptr;
};

struct AttentionOutput {
  // [query tokens, heads * d_v] with output_stride; a row without allowed keys is zero.
  MutableElements output = {};
  int64_t output_stride = 0;
  // [heads, query tokens], or null: log(sum_j exp(score_ij)), a sink included; -infinity for a row without
  // allowed keys.
  float* log_sum_exp = nullptr;
  AttentionCapture capture = {};
};

// Position i of the rows `to`, one after the other, = row i of keys and values [positions, width] with
// strides. dtype: f32, bf16, rounded to nearest even, or q8_0 (block_dtypes.h) of widths that are multiples
// of 32: the scale is the f16 nearest to a 127th of the block's largest magnitude, and an integer the nearest
// to the number divided by it, from -127 to 127. A block with a NaN or an infinity becomes NaN.
struct CacheStore {
  int64_t key_width = 0, value_width = 0;
  Elements keys = {}, values = {};
  int64_t key_stride = 0, value_stride = 0;
  DType dtype = DType::f32;
  std::span<const CacheRow> to = {};
};

// The inverse: row i of `to` [positions, width], contiguous.
struct CacheLoad {
  int64_t width = 0;  // of keys and values together
  DType dtype = DType::f32;
  std::span<const CacheRow> from = {};
  MutableElements to = {};
};

// Position i of `to` = position i of `from`, the same bytes.
struct CacheCopy {
  CacheRow from, to;
  size_t bytes = 0;  // of a position
};

// A decoding step: one query per row, which attends to positions of a cache. A row without positions is zero.
// A row's bits depend on no other row.
struct CachedAttention {
  std::span<const CacheRow> rows = {};
  int64_t heads = 1;
  int64_t key_heads = 1;     // heads of keys and values, a divisor of heads
  int64_t d_k = 0, d_v = 0;  // per head
  float scale = 1;
  float softcap = 0;    // as in AttentionShape
  Elements query = {};  // [rows, heads * d_k] with query_stride
  int64_t query_stride = 0;
  DType dtype = DType::f32;  // of the cache: f32, bf16 or q8_0, computed in f32
  // Biases by distance, as in AttentionShape; a row's query is at its last position.
  const float* alibi_slopes = nullptr;
  RelativeBias relative = {};
  const float* sinks = nullptr;  // as in AttentionShape
  MutableElements output = {};   // [rows, heads * d_v] with output_stride
  int64_t output_stride = 0;
  // The softmax output of row r, [heads, positions], is written to weights[weight_offsets[r] ...]. Null: not
  // wanted.
  const int64_t* weight_offsets = nullptr;
  float* weights = nullptr;

  size_t entry_bytes() const { return bytes_of(dtype, key_heads * (d_k + d_v)); }
};

struct AttentionGradients {
  // Layouts of the inputs, with separate strides; null: not wanted.
  MutableElements query = {}, key = {}, value = {};
  int64_t query_stride = 0, key_stride = 0, value_stride = 0;
  Accumulate query_accumulate = Accumulate::no, key_accumulate = Accumulate::no,
             value_accumulate = Accumulate::no;
  // Gradient of the additive bias, or null; always accumulated, in the bias's layout. Broadcast axes are
  // summed in order; the gradient of a broadcast bias is computed on one thread.
  float* bias = nullptr;
  // Gradient of the relative bias, or null; always accumulated, in its layout.
  float* relative = nullptr;
  float* sinks = nullptr;  // [heads], or null; always accumulated
};

}  // namespace qkv::kernels
