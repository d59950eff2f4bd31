#pragma once
// 16-bit floating point to f32 and back.

#include <bit>

#include "qkv/tensor/dtype.h"

namespace qkv {

// Exact.
constexpr float widened(float number) { return number; }
constexpr float widened(BFloat16 number) { return std::bit_cast<float>(uint32_t{number.bits} << 16); }
constexpr float widened(Float16 number) {
  const uint32_t fraction = number.bits & 0x3FFu, magnitude = (number.bits & 0x7FFFu) << 13;
  constexpr uint32_t kRebias = (127 - 15) << 23;
  const uint32_t normal = magnitude + kRebias + (magnitude >= 0x0F800000u ? kRebias : 0);  // infinity and NaN
  const auto subnormal = std::bit_cast<uint32_t>(static_cast<float>(fraction) * 0x1p-24f);
  const uint32_t sign = (number.bits & 0x8000u) << 16;
  return std::bit_cast<float>((magnitude < 0x00800000u ? subnormal : normal) | sign);
}

// The nearest f16, ties to even. NaN stays NaN; values that round beyond 65504 become infinite.
constexpr Float16 nearest_f16(float number) {
  const auto bits = std::bit_cast<uint32_t>(number);
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  // Adding 0.5 leaves a multiple of 2^-24, the step of subnormal numbers, in the last bits.
  const uint32_t subnormal =
      std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - std::bit_cast<uint32_t>(0.5f);
  const uint32_t normal = (magnitude - ((127 - 15) << 23) + 0xFFF + ((magnitude >> 13) & 1)) >> 13;
  const uint32_t special = magnitude > 0x7F800000u ? 0x7E00 : 0x7C00;
  const uint32_t half = magnitude >= 0x47800000u ? special : magnitude < 0x38800000u ? subnormal : normal;
  return {static_cast<uint16_t>(half | (bits >> 16 & 0x8000u))};
}

}  // namespace qkv
