#pragma once
// Products of small matrices by a warp, with the instructions for bf16: mma.sync.m16n8k16 (PTX ISA, "Matrix
// multiply-accumulate operation using mma instruction"). A warp's matrix has 16 rows. On the device its lanes
// share the elements as the instruction lays them out; on the host one thread has all.

#include "qkv/kernels/cuda/grid.h"
#include "qkv/kernels/cuda/weights.h"

namespace qkv::kernels::cuda {

inline constexpr int kWarpRows = 16;  // of a warp's matrix
inline constexpr int kDepth = 16;     // columns of a left-hand side
// f32 numbers are products of three parts in bf16, which have all 24 bits; those of bf16 have one.
inline constexpr int kExactParts = 3;

// The nearest bf16 to what the parts before leave of a number.
QKV_DEVICE inline uint16_t part_of(float value, int part) {
  uint16_t bits = rounded_bf16(value);
  QKV_UNROLL for (int before = 0; before < part; ++before) {
    value -= widened_bf16(bits);
    if (value - value != 0) value = 0;  // of an infinity or NaN, the first part is all
    bits = rounded_bf16(value);
  }
  return bits;
}

// Sums [16, cols] in f32. Own elements and rows are those of this thread; `slot` numbers its rows.
template <int cols>
struct Sums {
#ifdef __CUDA_ARCH__
  static constexpr int kOwn = cols / 2, kOwnRows = 2;
  QKV_DEVICE static int slot(int i) { return i / 2 % 2; }
  QKV_DEVICE static int row_of_slot(const Thread& thread, int slot) { return thread.lane() / 4 + 8 * slot; }
  QKV_DEVICE static int col(const Thread& thread, int i) { return i / 4 * 8 + thread.lane() % 4 * 2 + i % 2; }
#else
  static constexpr int kOwn = kWarpRows * cols, kOwnRows = kWarpRows;
  static int slot(int i) { return i / cols; }
  static int row_of_slot(const Thread& /*thread*/, int slot) { return slot; }
  static int col(const Thread& /*thread*/, int i) { return i % cols; }
#endif
  float values[kOwn] = {};
};

// Over the lanes that share a row.
QKV_DEVICE inline float row_maximum(float value) {
#ifdef __CUDA_ARCH__
  QKV_UNROLL for (int other = 1; other < 4; other *= 2) {
    const float theirs = __shfl_xor_sync(0xFFFFFFFFu, value, other);
    value = theirs > value ? theirs : value;
  }
#endif
  return value;
}
QKV_DEVICE inline float row_sum(float value) {
#ifdef __CUDA_ARCH__
  QKV_UNROLL for (int other = 1; other < 4; other *= 2) value += __shfl_xor_sync(0xFFFFFFFFu, value, other);
#endif
  return value;
}

// A left-hand side [16, 16] in bf16.
struct Left {
#ifdef __CUDA_ARCH__
  uint32_t words[4];
#else
  float values[kWarpRows * kDepth];
#endif
};

QKV_DEVICE inline uint32_t pair_at(const uint16_t* from) { return *reinterpret_cast<const uint32_t*>(from); }

// Of rows in shared memory, `stride` numbers apart.
QKV_DEVICE inline Left left_at(const Thread& thread, const uint16_t* from, int stride) {
  Left left;
#ifdef __CUDA_ARCH__
  const uint16_t* const own = from + thread.lane() / 4 * stride + thread.lane() % 4 * 2;
  QKV_UNROLL for (int w = 0; w < 4; ++w) left.words[w] = pair_at(own + w % 2 * 8 * stride + w / 2 * 8);
#else
  static_cast<void>(thread);
  for (int i = 0; i < kWarpRows * kDepth; ++i)
    left.values[i] = widened_bf16(from[i / kDepth * stride + i % kDepth]);
#endif
  return left;
}

// Columns 16 `chunk` to 16 `chunk` + 15 of sums, one part of them.
template <int cols>
QKV_DEVICE Left left_of(const Sums<cols>& sums, int chunk, int part) {
  Left left;
#ifdef __CUDA_ARCH__
  QKV_UNROLL for (int w = 0; w < 4; ++w) {
    const float* const two = sums.values + (2 * chunk + w / 2) * 4 + w % 2 * 2;
    left.words[w] = part_of(two[0], part) | static_cast<uint32_t>(part_of(two[1], part)) << 16;
  }
#else
  for (int i = 0; i < kWarpRows * kDepth; ++i)
    left.values[i] =
        widened_bf16(part_of(sums.values[i / kDepth * cols + chunk * kDepth + i % kDepth], part));
#endif
  return left;
}

#ifndef __CUDA_ARCH__
// Whether a row adds nothing: the host's tests have short sequences, and tiles with few rows in use.
inline bool is_zero(const float* row) {
  for (int k = 0; k < kDepth; ++k) {
    if (row[k] != 0) return false;
  }
  return true;
}
#else
// c [16, 8] += a [16, 16] b [16, 8]; own elements of each.
QKV_DEVICE inline void multiply_add(float* c, const uint32_t* a, uint32_t b_low, uint32_t b_high) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b_low), "r"(b_high));
}
#endif

// c += a b^T for b [cols, 16] in shared memory.
template <int cols>
QKV_DEVICE void multiply_transposed(const Thread& thread, const Left& a, const uint16_t* b, int stride,
                                    Sums<cols>& c) {
#ifdef __CUDA_ARCH__
  const uint16_t* const own = b + thread.lane() / 4 * stride + thread.lane() % 4 * 2;
  QKV_UNROLL for (int n = 0; n < cols / 8; ++n) multiply_add(
      c.values + 4 * n, a.words, pair_at(own + n * 8 * stride), pair_at(own + n * 8 * stride + 8));
#else
  static_cast<void>(thread);
  for (int i = 0; i < kWarpRows; ++i) {
    const float* const left = a.values + i * kDepth;
    if (is_zero(left)) continue;
    for (int j = 0; j < cols; ++j) {
      float sum = 0;
      for (int k = 0; k < kDepth; ++k) sum += left[k] * widened_bf16(b[j * stride + k]);
      c.values[i * cols + j] += sum;
    }
  }
#endif
}

// c += a b for b [16, cols] in shared memory, whose rows begin at multiples of 16 bytes.
template <int cols>
QKV_DEVICE void multiply(const Thread& thread, const Left& a, const uint16_t* b, int stride, Sums<cols>& c) {
#ifdef __CUDA_ARCH__
  // Lanes 0 to 15 name the rows of two 8 x 8 matrices, which arrive transposed.
  const uint32_t row = static_cast<uint32_t>(__cvta_generic_to_shared(b + thread.lane() % kDepth * stride));
  QKV_UNROLL for (int n = 0; n < cols / 8; ++n) {
    uint32_t low = 0, high = 0;
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(low), "=r"(high)
                 : "r"(row + static_cast<uint32_t>(n * 8 * sizeof(uint16_t)))
                 : "memory");
    multiply_add(c.values + 4 * n, a.words, low, high);
  }
#else
  static_cast<void>(thread);
  for (int i = 0; i < kWarpRows; ++i) {
    const float* const left = a.values + i * kDepth;
    if (is_zero(left)) continue;
    for (int k = 0; k < kDepth; ++k) {
      for (int j = 0; j < cols; ++j) c.values[i * cols + j] += left[k] * widened_bf16(b[k * stride + j]);
    }
  }
#endif
}

}  // namespace qkv::kernels::cuda
