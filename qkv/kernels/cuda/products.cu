// Products with weights. Operands are f32; those of a bf16 product are rounded first.

#include "qkv/kernels/cuda/products.h"

#include <memory>
#include <span>
#include <vector>

#include "qkv/kernels/cuda/grid.h"
#include "qkv/kernels/cuda/kernels.h"
#include "qkv/kernels/cuda/memory.h"
#include "qkv/kernels/cuda/weights.h"

namespace qkv::kernels::cuda {
namespace {

// The rows of all blocks, one after the other; or weights that are read in place.
struct RightHandSide final : PreparedMatrix {
  Storage packed;
  int64_t rows = 0, cols = 0;  // of `packed`
  bool transposed = false;
  DType operands = DType::f32;
  std::vector<WeightRows> in_place;

  float* values() const { return reinterpret_cast<float*>(packed.get()); }
};

// A contiguous copy, rounded to the dtype.
void copy_rounded(const Matrix& from, DType operands, float* to) {
  for_each(from.rows * from.cols, [=] QKV_DEVICE(int64_t i) {
    const float value = from.data[i / from.cols * from.stride + i % from.cols];
    to[i] = operands == DType::bf16 ? widened_bf16(rounded_bf16(value)) : value;
  });
}

std::unique_ptr<const PreparedMatrix> pack(std::span<const Matrix> blocks, DType operands, bool transposed) {
  auto b = std::make_unique<RightHandSide>();
  b->cols = blocks.front().cols;
  b->transposed = transposed;
  b->operands = operands;
  for (const Matrix& block : blocks) b->rows += block.rows;
  b->packed = memory().allocate(static_cast<size_t>(b->rows * b->cols) * sizeof(float));
  int64_t first = 0;
  for (const Matrix& block : blocks) {
    copy_rounded(block, operands, b->values() + first * b->cols);
    first += block.rows;
  }
  return b;
}

// The rows of a rounded to 8 bits with a zero point, and widened again: integers times a scale, which a
// product in f32 sums nearly exactly. As reference/matmul.cc.
void copy_quantized(const Matrix& a, float* to) {
  launch(a.rows, [=] QKV_DEVICE(const Thread& thread) {
    const float* const x = a.data + thread.block * a.stride;
    float high = 0, low = 0;
    bool finite = true;
    for (int64_t c = thread.index; c < a.cols; c += thread.count) {
      if (x[c] > high) high = x[c];
      if (-x[c] > low) low = -x[c];
      finite = finite && x[c] - x[c] == 0;
    }
    high = thread.maximum(high);
    low = -thread.maximum(low);
    finite = thread.maximum(finite ? 0.0f : 1.0f) == 0;
    const float range = high - low, inverse = range > 1e-30f ? 255 / range : 0, scale = range / 255;
    const float zero = ::nearbyintf(-low * inverse);
    for (int64_t c = thread.index; c < a.cols; c += thread.count) {
      float step = ::nearbyintf(x[c] * inverse) + zero;
      step = step < 0 ? 0 : step > 255 ? 255 : step;
      to[thread.block * a.cols + c] = !finite ? NAN : inverse == 0 ? 0 : (step - zero) * scale;
    }
  });
}

// Rounded to 8 bits in groups of 32, as inputs of weights in blocks are.
void copy_rounded_by_groups(const Matrix& a, float* to) {
  constexpr int kGroup = 32;
  for_each(a.rows * (a.cols / kGroup), [=] QKV_DEVICE(int64_t n) {
    const int64_t row = n / (a.cols / kGroup), first = n % (a.cols / kGroup) * kGroup;
    const float* const x = a.data + row * a.stride + first;
    float largest = 0;
    bool finite = true;
    for (int i = 0; i < kGroup; ++i) {
      const float magnitude = ::fabsf(x[i]);
      if (magnitude > largest) largest = magnitude;
      finite = finite && x[i] - x[i] == 0;
    }
    const float inverse = largest > 1e-30f ? 127 / largest : 0;
    for (int i = 0; i < kGroup; ++i)
      to[row * a.cols + first + i] = finite ? ::nearbyintf(x[i] * inverse) * (largest / 127) : NAN;
  });
}

void add_bias(const float* bias, const MutableMatrix& c) {
  for_each(c.rows * c.cols,
           [=] QKV_DEVICE(int64_t i) { c.data[i / c.cols * c.stride + i % c.cols] += bias[i % c.cols]; });
}

void multiply_in_place(const Matrix& a, const RightHandSide& b, const MutableMatrix& c,
                       Accumulate accumulate) {
  const DType dtype = b.in_place.front().dtype;
  const bool rounds = dtype == DType::i8 || in_blocks(dtype);
  const Array<float> rounded(rounds ? a.rows * a.cols : 0);
  if (dtype == DType::i8) copy_quantized(a, rounded.data());
  if (in_blocks(dtype)) copy_rounded_by_groups(a, rounded.data());
  const Operand left = rounds ? Operand{rounded.data(), a.cols} : Operand{a.data, a.stride};
  int64_t first = 0;
  for (const WeightRows& w : b.in_place) {
    const Array<float> wide(w.dtype == DType::f32 ? 0 : w.rows * w.cols);
    if (w.dtype != DType::f32) widen_rows(w, wide.data());
    const Operand right = w.dtype == DType::f32 ? Operand{static_cast<const float*>(w.data), w.stride, true}
                                                : Operand{wide.data(), w.cols, true};
    gemm(a.rows, w.rows, a.cols, left, right, c.data + first, c.stride, accumulate == Accumulate::yes);
    first += w.rows;
  }
}

}  // namespace

std::unique_ptr<const PreparedMatrix> pack_transposed(std::span<const Matrix> blocks, DType operands) {
  return pack(blocks, operands, true);
}
std::unique_ptr<const PreparedMatrix> pack_plain(std::span<const Matrix> blocks, DType operands) {
  return pack(blocks, operands, false);
}

std::unique_ptr<const PreparedMatrix> view(std::span<const WeightRows> blocks) {
  auto b = std::make_unique<RightHandSide>();
  b->in_place.assign(blocks.begin(), blocks.end());
  return b;
}

void matmul(const Matrix& a, const PreparedMatrix& prepared, const float* bias, const MutableMatrix& c,
            Accumulate accumulate) {
  const auto& b = static_cast<const RightHandSide&>(prepared);
  if (!b.in_place.empty()) {
    multiply_in_place(a, b, c, accumulate);
  } else {
    const Array<float> rounded(b.operands == DType::f32 ? 0 : a.rows * a.cols);
    if (b.operands != DType::f32) copy_rounded(a, b.operands, rounded.data());
    const Operand left =
        b.operands == DType::f32 ? Operand{a.data, a.stride} : Operand{rounded.data(), a.cols};
    gemm(a.rows, c.cols, a.cols, left, {b.values(), b.cols, b.transposed}, c.data, c.stride,
         accumulate == Accumulate::yes);
  }
  if (bias != nullptr) add_bias(bias, c);
}

void matmul_transposed_a(const Matrix& a, const Matrix& b, const MutableMatrix& c, Accumulate accumulate,
                         DType operands) {
  if (operands == DType::f32) {
    gemm(a.cols, b.cols, a.rows, {a.data, a.stride, true}, {b.data, b.stride}, c.data, c.stride,
         accumulate == Accumulate::yes);
    return;
  }
  const Array<float> left(a.rows * a.cols), right(b.rows * b.cols);
  copy_rounded(a, operands, left.data());
  copy_rounded(b, operands, right.data());
  gemm(a.cols, b.cols, a.rows, {left.data(), a.cols, true}, {right.data(), b.cols}, c.data, c.stride,
       accumulate == Accumulate::yes);
}

void batched_product(const BatchedProduct& a) {
  gemm(a.m, a.n, a.k, {a.x, a.x_transposed ? a.m : a.k, a.x_transposed, a.m * a.k},
       {a.y, a.y_transposed ? a.k : a.n, a.y_transposed, a.k * a.n}, a.z, a.n,
       a.accumulate == Accumulate::yes, a.batch, a.m * a.n);
}

}  // namespace qkv::kernels::cuda
