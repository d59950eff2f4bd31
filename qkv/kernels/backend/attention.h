#pragma once
// Scaled dot-product attention (Vaswani et al. 2017, equation 1): softmax(Q K^T scale + bias) V by head, over
// ragged batches, tiled with an online softmax (Milakov and Gimelshein 2018; Dao et al. 2022): a matrix of
// queries by keys is never stored.

#include <cstdint>

#include "qkv/kernels/accumulate.h"
#include "qkv/kernels/alignment.h"
#include "qkv/kernels/dropout.h"
#include "qkv/tensor/dtype.h"

namespace qkv::kernels {

// Element (b, h, i, j) lies at data[b * batch_stride + h * head_stride + i * query_stride + j], where i and j
// count within the sequence. A stride of 0 repeats.
struct KeepMask {
  const uint8_t* data = nullptr;  // null: no mask. Nonzero: query i may attend to key j.
  int64_t batch_stride = 0, head_stride = 0, query_stride = 0;
};

struct ScoreBias {
  const float* data = nullptr;  // null: no bias. Added to the scaled scores. -infinity forbids.
  int64_t batch_stride = 0, head_stride = 0, query_stride = 0;
};

// A bias that depends on how far apart query and key are (Raffel et al. 2020, section 2.1): data[h *
// head_stride + zero + n] is added to the score of a key that lies n positions after the query (before it: n
// < 0), at positions that Alignment says.
struct RelativeBias {
  const float* data = nullptr;  // null: no such bias
  int64_t head_stride = 0;
  int64_t zero = 0;
};

// What both directions need. Head h of query row t is query[t * query_stride + h * d_k .. + d_k]; keys,
// values and outputs likewise (strides in elements), so that a fused projection's columns can be read in
// place. Query head h attends to the keys and values of head h / (heads / key_heads) (grouped-query
// attention, Ainslie et al. 2023).
struct AttentionShape {
  int64_t sequences = 0;
  const int32_t* query_offsets = nullptr;  // [sequences + 1]
  const int32_t* key_offsets = nullptr;    // [sequences + 1]
  int64_t heads = 1;
  int64_t key_heads = 0;     // of keys and values, a divisor of heads; 0: as many
  int64_t d_k = 0, d_v = 0;  // per head
  float scale = 1;           // 1 / sqrt(d_k) in the paper
  // 0: none. Else a scaled score s becomes softcap * tanh(s / softcap), before biases are added (Gemma 2).
  float softcap = 0;
  // A query attends to keys at its own position and before it.
  bool causal = false;
  Alignment alignment = Alignment::last_key;  // causal, ALiBi and the relative bias go by it
  // Of causal attention: query i attends to no more than the last `window` of the keys that causality allows
  // it, its own included (Beltagy et al. 2020, section 3.1). 0: to all of them.
  int64_t window = 0;
  // Few queries of a sequence are computed in another order of sums than many. Set, all are computed as many
  // are: a row's bits then do not depend on how many queries of its sequence a call has.
  bool fixed_order = false;
  KeepMask keep = {};
  ScoreBias bias = {};
  // [heads], null: none. The score of a key n positions away falls by slope * n (Press et al. 2022, ALiBi).
  const float* alibi_slopes = nullptr;
  RelativeBias relative = {};
  // Of the weights; row = query row in the batch, column = head * 2^22 + key within the sequence.
  Dropout dropout = {};

  int64_t query_heads_per_key() const { return key_heads > 0 ? heads / key_heads : 1; }
};

struct AttentionInput {
  const float* query = nullptr;
  const float* key = nullptr;
  const float* value = nullptr;
  int64_t query_stride = 0, key_stride = 0, value_stride = 0;
};

// The parts of the softmax's weights, before dropout, that a caller wants to see. They are written on the
// way, by recomputing the scores of the captured rows. Head h of query row t has the number n = h * query
// tokens + t.
struct AttentionCapture {
  // The weights of row n over all keys of its sequence are written to weights[offsets[n] ...], its scores
  // (what the softmax is taken of; -infinity where it may not attend) to scores[offsets[n] ...]; a negative
  // offset: not wanted. Null: nowhere.
  const int64_t* offsets = nullptr;
  float* weights = nullptr;
  float* scores = nullptr;
  // [n], null: not wanted: -sum_j p_j log(p_j), in nats.
  float* entropy = nullptr;
  // [n, top]: the largest weights of a row and their keys, counted within the sequence; the largest first,
  // and of equals the earlier key. 0 and -1 where a row has fewer that are not zero.
  int64_t top = 0;
  float* top_weights = nullptr;
  int32_t* top_keys = nullptr;
};

struct AttentionOutput {
  // [query tokens, heads * d_v] with output_stride; a row that may attend to nothing is zeros.
  float* output = nullptr;
  int64_t output_stride = 0;
  // [heads, query tokens]: log(sum_j exp(score_ij)), -infinity for a row that may attend to nothing. Null:
  // not wanted.
  float* log_sum_exp = nullptr;
  AttentionCapture capture = {};
};

// An entry of a cache: the keys [key width] of a position, then its values [value width], of a dtype that is
// f32 or bf16. Entries lie anywhere and are never moved, so that hypotheses with a common beginning share
// them.

// to[i] = row i of keys and values: f32 [count, width] with strides. bf16 is rounded to nearest even.
struct CacheStore {
  int64_t count = 0;
  int64_t key_width = 0, value_width = 0;
  const float *keys = nullptr, *values = nullptr;
  int64_t key_stride = 0, value_stride = 0;
  DType dtype = DType::f32;
  void* const* to = nullptr;  // [count]
};

// The inverse: row i of `to`, f32 [count, key_width + value_width], contiguous, = from[i].
struct CacheLoad {
  int64_t count = 0;
  int64_t key_width = 0, value_width = 0;
  DType dtype = DType::f32;
  const void* const* from = nullptr;  // [count]
  float* to = nullptr;
};

// A step of decoding: one query a row, against entries of a cache: entries[r][j] is position j of row r. A
// row without positions becomes zeros. A row's bits depend on nothing beside it.
struct CachedAttention {
  int64_t rows = 0, heads = 1;
  int64_t key_heads = 1;     // of keys and values, a divisor of heads
  int64_t d_k = 0, d_v = 0;  // per head
  float scale = 1;
  float softcap = 0;             // as in AttentionShape
  const float* query = nullptr;  // [rows, heads * d_k] with query_stride
  int64_t query_stride = 0;
  DType dtype = DType::f32;                     // of the entries: f32 or bf16, computed in f32
  const void* const* const* entries = nullptr;  // [rows]
  const int32_t* lengths = nullptr;             // [rows]
  // By distance, as in AttentionShape; a row's query is at its last position.
  const float* alibi_slopes = nullptr;
  RelativeBias relative = {};
  float* output = nullptr;  // [rows, heads * d_v] with output_stride
  int64_t output_stride = 0;
  float* const* weights = nullptr;  // [rows], each [heads, length]: what the softmax gave; null: not wanted
};

struct AttentionGradients {
  float* query = nullptr;  // the layouts of the inputs, with strides of their own
  float* key = nullptr;
  float* value = nullptr;
  int64_t query_stride = 0, key_stride = 0, value_stride = 0;
  Accumulate query_accumulate = Accumulate::no, key_accumulate = Accumulate::no,
             value_accumulate = Accumulate::no;
  // Of the additive bias: null where not wanted, else always added to, laid out like the bias. With a
  // repeating stride the sum runs over what it repeats, in order; such a bias is computed on one thread.
  float* bias = nullptr;
  // Of the relative bias: null where not wanted, else always added to, laid out like it.
  float* relative = nullptr;
};

}  // namespace qkv::kernels
