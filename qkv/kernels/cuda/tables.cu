// Embeddings, rotary positions, and conversions of weights.

#include "qkv/kernels/cuda/dropout.h"
#include "qkv/kernels/cuda/elements.h"
#include "qkv/kernels/cuda/grid.h"
#include "qkv/kernels/cuda/kernels.h"
#include "qkv/kernels/cuda/memory.h"
#include "qkv/kernels/cuda/weights.h"

namespace qkv::kernels::cuda {

namespace {

template <DType dtype>
void embed(const EmbeddingForward& a) {
  for_each(a.tokens * a.cols, [=] QKV_DEVICE(int64_t i) {
    const int64_t t = i / a.cols, c = i % a.cols;
    float value = a.factor * element<dtype>(a.table, a.ids[t], c);
    if (a.positions != nullptr) value += a.positions[a.position[t] * a.cols + c];
    a.y[i] = value * dropout_factor(a.dropout, t, c);
  });
}

template <DType dtype>
void widen(const WeightRows& from, float* to) {
  for_each(from.rows * from.cols,
           [=] QKV_DEVICE(int64_t i) { to[i] = element<dtype>(from, i / from.cols, i % from.cols); });
}

}  // namespace

void embedding_forward(const EmbeddingForward& a) {
  with_dtype(a.table.dtype, [&](auto dtype) { embed<dtype.value>(a); });
}

void widen_rows(const WeightRows& from, float* to) {
  with_dtype(from.dtype, [&](auto dtype) { widen<dtype.value>(from, to); });
}

// A row of the table is summed in the order of tokens: each token finds the next one of its id, and the first
// of an id follows them.
void embedding_backward(const float* dy, const int32_t* ids, float factor, int64_t tokens, int64_t cols,
                        int64_t /*vocabulary*/, const Dropout& dropout, float* table_gradient) {
  const Array<int32_t> next_array(tokens), follows_array(tokens);
  int32_t *const next = next_array.data(), *const follows = follows_array.data();
  for_each(tokens, [=] QKV_DEVICE(int64_t t) { follows[t] = 0; });
  for_each(tokens, [=] QKV_DEVICE(int64_t t) {
    int64_t n = t + 1;
    while (n < tokens && ids[n] != ids[t]) ++n;
    next[t] = static_cast<int32_t>(n);
    if (n < tokens) follows[n] = 1;
  });
  launch(tokens, [=] QKV_DEVICE(const Thread& thread) {
    if (follows[thread.block] != 0) return;
    for (int64_t c = thread.index; c < cols; c += thread.count) {
      double sum = 0;
      for (int64_t t = thread.block; t < tokens; t = next[t])
        sum += static_cast<double>(factor) * dy[t * cols + c] * dropout_factor(dropout, t, c);
      table_gradient[ids[thread.block] * cols + c] += static_cast<float>(sum);
    }
  });
}

void rotary(const Rotary& a) {
  const int64_t half = a.rotated / 2, rest = a.d - a.rotated, items = half + rest;
  for_each(a.rows * a.heads * items, [=] QKV_DEVICE(int64_t n) {
    const int64_t row = n / (a.heads * items), head = n / items % a.heads, i = n % items;
    const int64_t x = row * a.x_stride + head * a.d, y = row * a.y_stride + head * a.d;
    if (i >= half) {
      const int64_t c = a.rotated + i - half;
      put(a.y, y + c, get(a.x, x + c), a.accumulate);
      return;
    }
    const int64_t angle = a.positions[row] * half + i;
    const float cosine = a.cosines[angle],
                sine = a.direction == Turn::forward ? a.sines[angle] : -a.sines[angle];
    const float first = get(a.x, x + i), second = get(a.x, x + half + i);
    put(a.y, y + i, first * cosine - second * sine, a.accumulate);
    put(a.y, y + half + i, second * cosine + first * sine, a.accumulate);
  });
}

void round_to_bf16(const float* from, BFloat16* to, int64_t count) {
  for_each(count, [=] QKV_DEVICE(int64_t i) { to[i].bits = rounded_bf16(from[i]); });
}

void round_to_f16(const float* from, Float16* to, int64_t count) {
  for_each(count, [=] QKV_DEVICE(int64_t i) { to[i].bits = rounded_f16(from[i]); });
}

void quantize_rows(const float* from, int64_t rows, int64_t cols, int8_t* to, float* scales) {
  launch(rows, [=] QKV_DEVICE(const Thread& thread) {
    const float* const row = from + thread.block * cols;
    float largest = 0;
    for (int64_t c = thread.index; c < cols; c += thread.count) {
      const float magnitude = ::fabsf(row[c]);
      if (magnitude > largest) largest = magnitude;
    }
    const float scale = thread.maximum(largest) / 127;
    if (thread.index == 0) scales[thread.block] = scale;
    for (int64_t c = thread.index; c < cols; c += thread.count) {
      const float steps = scale == 0 ? 0 : ::nearbyintf(row[c] / scale);
      to[thread.block * cols + c] = static_cast<int8_t>(steps < -127 ? -127 : steps > 127 ? 127 : steps);
    }
  });
}

}  // namespace qkv::kernels::cuda
