#include "qkv/kernels/reference/weights.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "qkv/tensor/block_dtypes.h"

namespace qkv::kernels::reference {

namespace {

// To a number of significant bits, with a minimum exponent. Ties to even.
float rounded_to(float value, int bits, int minimum) {
  int exponent = 0;  // value = fraction * 2^exponent, fraction in [0.5, 1)
  std::frexp(value, &exponent);
  const int last_bit = std::max(exponent, minimum + 1) - bits;
  return std::ldexp(std::nearbyint(std::ldexp(value, -last_bit)), last_bit);
}

// bf16 has 8 significant bits and float's exponent range, with minimum -126.
BFloat16 nearest_bf16(float value) {
  if (std::isnan(value)) return {uint16_t{0x7FC0}};
  if (std::isinf(value)) return {static_cast<uint16_t>(value > 0 ? 0x7F80 : 0xFF80)};
  return {static_cast<uint16_t>(std::bit_cast<uint32_t>(rounded_to(value, 8, -126)) >> 16)};
}

// f16 has 11 significant bits and exponents from -14 to 15; below are multiples of 2^-24.
Float16 nearest_half(float value) {
  const int sign = std::signbit(value) ? 0x8000 : 0;
  const float rounded = std::isfinite(value) ? std::abs(rounded_to(value, 11, -14)) : std::abs(value);
  int half = 0x7E00;  // NaN
  if (rounded > 65504) {
    half = 0x7C00;
  } else if (rounded < 0x1p-14f) {
    half = static_cast<int>(rounded * 0x1p24f);
  } else if (rounded <= 65504) {
    const int exponent = std::ilogb(rounded);
    half = (exponent + 14) * 1024 + static_cast<int>(std::ldexp(rounded, 10 - exponent));
  }
  return {static_cast<uint16_t>(half + sign)};
}

double value_of(Float16 half) {
  const int exponent = half.bits >> 10 & 31, fraction = half.bits & 1023;
  const double sign = half.bits & 0x8000 ? -1 : 1;
  if (exponent == 31) return sign * (fraction == 0 ? HUGE_VAL : std::nan(""));
  return sign * std::ldexp(exponent == 0 ? fraction : fraction + 1024, std::max(exponent, 1) - 25);
}

// Number i of the blocks.
float number_in_block(DType dtype, const std::byte* blocks, int64_t i) {
  const DTypeLayout layout = layout_of(dtype);
  std::array<float, 256> numbers;
  widen_blocks(dtype, blocks + static_cast<size_t>(i / layout.block) * layout.bytes, layout.block,
               numbers.data());
  return numbers[static_cast<size_t>(i % layout.block)];
}

}  // namespace

double element(const WeightRows& weights, int64_t row, int64_t col) {
  const int64_t i = row * weights.stride + col;
  switch (weights.dtype) {
    case DType::bf16:
      return std::bit_cast<float>(uint32_t{static_cast<const BFloat16*>(weights.data)[i].bits} << 16);
    case DType::f16:
      return value_of(static_cast<const Float16*>(weights.data)[i]);
    case DType::i8:
      return double{weights.scales[row]} * static_cast<const int8_t*>(weights.data)[i];
    case DType::f32:
      return static_cast<const float*>(weights.data)[i];
    default:
      return number_in_block(weights.dtype, static_cast<const std::byte*>(weights.data), i);
  }
}

void round_to_bf16(const float* from, BFloat16* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = nearest_bf16(from[i]);
}

void round_to_f16(const float* from, Float16* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = nearest_half(from[i]);
}

void quantize_rows(const float* from, int64_t rows, int64_t cols, int8_t* to, float* scales) {
  for (int64_t r = 0; r < rows; ++r) {
    float largest = 0;
    for (int64_t c = 0; c < cols; ++c) largest = std::max(largest, std::abs(from[r * cols + c]));
    scales[r] = largest / 127;
    for (int64_t c = 0; c < cols; ++c) {
      const float steps = scales[r] == 0 ? 0 : std::nearbyint(from[r * cols + c] / scales[r]);
      to[r * cols + c] = static_cast<int8_t>(std::clamp(steps, -127.0f, 127.0f));
    }
  }
}

void widen_rows(const WeightRows& from, float* to) {
  for (int64_t r = 0; r < from.rows; ++r) {
    for (int64_t c = 0; c < from.cols; ++c) to[r * from.cols + c] = static_cast<float>(element(from, r, c));
  }
}

}  // namespace qkv::kernels::reference
