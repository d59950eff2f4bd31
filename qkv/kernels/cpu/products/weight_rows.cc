#include "qkv/kernels/cpu/kernels.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "qkv/base/parallel.h"
#include "qkv/kernels/cpu/products/operands.h"
#include "qkv/tensor/block_dtypes.h"
#include "qkv/tensor/half.h"

namespace qkv::kernels::cpu {
namespace {

// Plain loops, which the compiler vectorises; each weight is converted once.

void quantize_row(const float* from, int64_t cols, int8_t* to, float& scale) {
  // Without sign bits, floats compare like their bit patterns as integers.
  uint32_t largest = 0;
  for (int64_t i = 0; i < cols; ++i)
    largest = std::max(largest, std::bit_cast<uint32_t>(from[i]) & 0x7FFFFFFFu);
  scale = std::bit_cast<float>(largest) / 127;
  if (scale == 0) {
    std::fill_n(to, cols, int8_t{0});
    return;
  }
  // By division, as 1 / scale may be infinite. Adding 1.5 * 2^23 rounds to an integer.
  constexpr float kWhole = 12582912.0f;
  for (int64_t i = 0; i < cols; ++i) {
    const float steps = (from[i] / scale + kWhole) - kWhole;
    to[i] = static_cast<int8_t>(std::clamp(steps, -127.0f, 127.0f));
  }
}

template <class Half>
void widen_halves(const void* from, int64_t first, int64_t count, float* to) {
  const auto* numbers = static_cast<const Half*>(from) + first;
  for (int64_t i = 0; i < count; ++i) to[i] = widened(numbers[i]);
}

void widen_row(const WeightRows& from, int64_t row, float* to) {
  const int64_t first = row * from.stride;
  switch (from.dtype) {
    case DType::bf16:
      return widen_halves<BFloat16>(from.data, first, from.cols, to);
    case DType::f16:
      return widen_halves<Float16>(from.data, first, from.cols, to);
    case DType::i8: {
      const auto* numbers = static_cast<const int8_t*>(from.data) + first;
      const float scale = from.scales[row];
      for (int64_t i = 0; i < from.cols; ++i) to[i] = static_cast<float>(numbers[i]) * scale;
      break;
    }
    case DType::f32:
      std::memcpy(to, static_cast<const float*>(from.data) + first,
                  static_cast<size_t>(from.cols) * sizeof(float));
      break;
    default:
      widen_blocks(from.dtype, static_cast<const std::byte*>(from.data) + bytes_of(from.dtype, first),
                   from.cols, to);
  }
}

constexpr int64_t kPiece = 65536;  // numbers

int64_t rows_of_piece(int64_t cols) { return std::max<int64_t>(1, kPiece / std::max<int64_t>(cols, 1)); }

}  // namespace

void round_to_bf16(const float* from, BFloat16* to, int64_t count) {
  parallel_for(count, kPiece, [&](int64_t begin, int64_t end) {
    const float* const part = from + begin;
    round_rows(&part, 1, end - begin, to + begin, end - begin);
  });
}

void round_to_f16(const float* from, Float16* to, int64_t count) {
  parallel_for(count, kPiece, [&](int64_t begin, int64_t end) {
    std::transform(from + begin, from + end, to + begin, nearest_f16);
  });
}

void quantize_rows(const float* from, int64_t rows, int64_t cols, int8_t* to, float* scales) {
  parallel_for(rows, rows_of_piece(cols), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      quantize_row(from + row * cols, cols, to + row * cols, scales[row]);
    }
  });
}

void widen_rows(const WeightRows& from, float* to) {
  parallel_for(from.rows, rows_of_piece(from.cols), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) widen_row(from, row, to + row * from.cols);
  });
}

}  // namespace qkv::kernels::cpu
