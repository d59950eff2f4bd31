#pragma once
// Numbers of weights in any dtype.

#include "qkv/kernels/cuda/grid.h"
#include "qkv/kernels/weight_rows.h"

namespace qkv::kernels::cuda {

QKV_DEVICE inline float float_of_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}
QKV_DEVICE inline uint32_t bits_of_float(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return bits;
}

QKV_DEVICE inline float widened_bf16(uint16_t bits) {
  return float_of_bits(static_cast<uint32_t>(bits) << 16);
}

QKV_DEVICE inline float widened_f16(uint16_t bits) {
  const uint32_t sign = (bits & 0x8000u) << 16, exponent = (bits >> 10) & 31u, fraction = bits & 1023u;
  if (exponent == 31) return float_of_bits(sign | 0x7F800000u | fraction << 13);
  if (exponent > 0) return float_of_bits(sign | (exponent + 112) << 23 | fraction << 13);
  const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
  return sign != 0 ? -magnitude : magnitude;
}

// To nearest, ties to even.
QKV_DEVICE inline uint16_t rounded_bf16(float value) {
  if (value != value) return 0x7FC0;
  const uint32_t bits = bits_of_float(value);
  return static_cast<uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

QKV_DEVICE inline uint16_t rounded_f16(float value) {
  const uint32_t bits = bits_of_float(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const float magnitude = float_of_bits(bits & 0x7FFFFFFFu);
  if (value != value) return static_cast<uint16_t>(sign | 0x7E00u);
  if (magnitude >= 65520) return static_cast<uint16_t>(sign | 0x7C00u);
  if (magnitude < 0x1p-14f)  // multiples of 2^-24: the sum rounds to them
    return static_cast<uint16_t>(sign | (bits_of_float(magnitude + 0.5f) - bits_of_float(0.5f)));
  const uint32_t rest = bits & 0x7FFFFFFFu;
  return static_cast<uint16_t>(sign | ((rest - (112u << 23) + 0xFFFu + ((rest >> 13) & 1u)) >> 13));
}

QKV_DEVICE inline float half_at(const std::byte* from) {
  uint16_t bits;
  memcpy(&bits, from, sizeof(bits));
  return widened_f16(bits);
}
QKV_DEVICE inline int byte_at(const std::byte* from) { return static_cast<int>(*from); }

// Number i of 32 numbers of four bits; `fifth`: four bytes of fifth bits, or null.
QKV_DEVICE inline int nibble(const std::byte* from, const std::byte* fifth, int i) {
  const int four = (byte_at(from + i % 16) >> (i / 16 * 4)) & 15;
  return fifth == nullptr ? four : four | ((byte_at(fifth + i / 8) >> (i % 8)) & 1) << 4;
}

// Number i of a block; the formats stand in tensor/block_dtypes.cc.
QKV_DEVICE inline float number_in_block(DType dtype, const std::byte* block, int i) {
  const float scale = half_at(block);
  switch (dtype) {
    case DType::q8_0:
      return scale * static_cast<float>(static_cast<int8_t>(byte_at(block + 2 + i)));
    case DType::q4_0:
      return scale * static_cast<float>(nibble(block + 2, nullptr, i) - 8);
    case DType::q4_1:
      return scale * static_cast<float>(nibble(block + 4, nullptr, i)) + half_at(block + 2);
    case DType::q5_0:
      return scale * static_cast<float>(nibble(block + 6, block + 2, i) - 16);
    case DType::q5_1:
      return scale * static_cast<float>(nibble(block + 8, block + 4, i)) + half_at(block + 2);
    case DType::iq4_nl: {
      constexpr float kSteps[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
      return scale * kSteps[nibble(block + 2, nullptr, i)];
    }
    case DType::q4_k:
    case DType::q5_k: {
      const bool five = dtype == DType::q5_k;
      const int group = i / 32, place = i % 32;
      const std::byte* const bits = block + 4;
      const int low = byte_at(bits + group % 4), middle = byte_at(bits + 4 + group % 4),
                top = byte_at(bits + 8 + group % 4);
      const int own_scale = group < 4 ? low & 63 : (top & 15) | (low >> 6) << 4;
      const int own_minimum = group < 4 ? middle & 63 : (top >> 4) | (middle >> 6) << 4;
      int number = (byte_at(block + (five ? 48 : 16) + group / 2 * 32 + place) >> (group % 2 * 4)) & 15;
      if (five) number |= ((byte_at(block + 16 + place) >> group) & 1) << 4;
      return scale * static_cast<float>(own_scale) * static_cast<float>(number) -
             half_at(block + 2) * static_cast<float>(own_minimum);
    }
    default: {  // q6_k
      const int group = i / 16, half = group / 8, run = group % 8 / 2, place = group % 2 * 16 + i % 16;
      const int four = (byte_at(block + half * 64 + run % 2 * 32 + place) >> (run / 2 * 4)) & 15;
      const int two = (byte_at(block + 128 + half * 32 + place) >> (run * 2)) & 3;
      const auto own_scale = static_cast<float>(static_cast<int8_t>(byte_at(block + 192 + group)));
      return half_at(block + 208) * own_scale * static_cast<float>((four | two << 4) - 32);
    }
  }
}

QKV_DEVICE inline float element(const WeightRows& w, int64_t row, int64_t col) {
  const int64_t i = row * w.stride + col;
  switch (w.dtype) {
    case DType::bf16:
      return widened_bf16(static_cast<const uint16_t*>(w.data)[i]);
    case DType::f16:
      return widened_f16(static_cast<const uint16_t*>(w.data)[i]);
    case DType::i8:
      return w.scales[row] * static_cast<float>(static_cast<const int8_t*>(w.data)[i]);
    case DType::f32:
      return static_cast<const float*>(w.data)[i];
    default: {
      const DTypeLayout layout = layout_of(w.dtype);
      const auto* const block =
          static_cast<const std::byte*>(w.data) + i / layout.block * static_cast<int64_t>(layout.bytes);
      return number_in_block(w.dtype, block, static_cast<int>(i % layout.block));
    }
  }
}

}  // namespace qkv::kernels::cuda
