#pragma once
// Numbers of weights in any dtype.

#include <type_traits>

#include "qkv/kernels/cuda/elements.h"
#include "qkv/kernels/cuda/grid.h"
#include "qkv/kernels/weight_rows.h"

namespace qkv::kernels::cuda {

QKV_DEVICE inline float widened_f16(uint16_t bits) {
  const uint32_t sign = (bits & 0x8000u) << 16, exponent = (bits >> 10) & 31u, fraction = bits & 1023u;
  if (exponent == 31) return float_of_bits(sign | 0x7F800000u | fraction << 13);
  if (exponent > 0) return float_of_bits(sign | (exponent + 112) << 23 | fraction << 13);
  const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
  return sign != 0 ? -magnitude : magnitude;
}

// To nearest, ties to even.
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

// A number of a block is scale * integer + offset; the formats stand in tensor/block_dtypes.cc. The scale and
// the offset are the same for numbers 16 n to 16 n + 15.
struct Grid {
  float scale, offset;
};

template <DType dtype>
QKV_DEVICE Grid grid_of(const std::byte* block, int i) {
  const auto k_grid = [&](int group) {  // of q4_k and q5_k: scale and minimum of six bits each
    const std::byte* const bits = block + 4;
    const int low = byte_at(bits + group % 4), middle = byte_at(bits + 4 + group % 4),
              top = byte_at(bits + 8 + group % 4);
    const int scale = group < 4 ? low & 63 : (top & 15) | (low >> 6) << 4;
    const int minimum = group < 4 ? middle & 63 : (top >> 4) | (middle >> 6) << 4;
    return Grid{half_at(block) * static_cast<float>(scale),
                -(half_at(block + 2) * static_cast<float>(minimum))};
  };
  switch (dtype) {
    case DType::q4_1:
    case DType::q5_1:
      return {half_at(block), half_at(block + 2)};
    case DType::q4_k:
    case DType::q5_k:
      return k_grid(i / 32);
    case DType::q6_k:
      return {half_at(block + 208) * static_cast<float>(static_cast<int8_t>(byte_at(block + 192 + i / 16))),
              0};
    default:
      return {half_at(block), 0};
  }
}

template <DType dtype>
QKV_DEVICE int integer_of(const std::byte* block, int i) {
  switch (dtype) {
    case DType::q8_0:
      return static_cast<int8_t>(byte_at(block + 2 + i));
    case DType::q4_0:
      return nibble(block + 2, nullptr, i) - 8;
    case DType::q4_1:
      return nibble(block + 4, nullptr, i);
    case DType::q5_0:
      return nibble(block + 6, block + 2, i) - 16;
    case DType::q5_1:
      return nibble(block + 8, block + 4, i);
    case DType::iq4_nl: {
      // Sixteen steps as bytes of four words, which stay in registers.
      constexpr uint32_t kSteps[4] = {0xBFAD9881, 0xF6EADDCF, 0x26190D01, 0x71594535};
      const int n = nibble(block + 2, nullptr, i);
      const uint32_t word = n < 8 ? (n < 4 ? kSteps[0] : kSteps[1]) : (n < 12 ? kSteps[2] : kSteps[3]);
      return static_cast<int8_t>(word >> (n % 4 * 8));
    }
    case DType::q4_k:
    case DType::q5_k: {
      const int group = i / 32, place = i % 32;
      const std::byte* const fours = block + (dtype == DType::q5_k ? 48 : 16) + group / 2 * 32;
      const int four = (byte_at(fours + place) >> (group % 2 * 4)) & 15;
      return dtype == DType::q4_k ? four : four | ((byte_at(block + 16 + place) >> group) & 1) << 4;
    }
    default: {  // q6_k
      const int group = i / 16, half = group / 8, run = group % 8 / 2, place = group % 2 * 16 + i % 16;
      const int four = (byte_at(block + half * 64 + run % 2 * 32 + place) >> (run / 2 * 4)) & 15;
      const int two = (byte_at(block + 128 + half * 32 + place) >> (run * 2)) & 3;
      return (four | two << 4) - 32;
    }
  }
}

// The block of a number, and its place there.
template <DType dtype>
QKV_DEVICE const std::byte* block_of(const WeightRows& w, int64_t number, int* place) {
  constexpr DTypeLayout layout = layout_of(dtype);
  *place = static_cast<int>(number % layout.block);
  return static_cast<const std::byte*>(w.data) + number / layout.block * static_cast<int64_t>(layout.bytes);
}

template <DType dtype>
QKV_DEVICE float element(const WeightRows& w, int64_t row, int64_t col) {
  const int64_t i = row * w.stride + col;
  if constexpr (dtype == DType::f32) {
    return static_cast<const float*>(w.data)[i];
  } else if constexpr (dtype == DType::bf16) {
    return widened_bf16(static_cast<const uint16_t*>(w.data)[i]);
  } else if constexpr (dtype == DType::f16) {
    return widened_f16(static_cast<const uint16_t*>(w.data)[i]);
  } else if constexpr (dtype == DType::i8) {
    return w.scales[row] * static_cast<float>(static_cast<const int8_t*>(w.data)[i]);
  } else {
    int place = 0;
    const std::byte* const block = block_of<dtype>(w, i, &place);
    const Grid grid = grid_of<dtype>(block, place);
    return grid.scale * static_cast<float>(integer_of<dtype>(block, place)) + grid.offset;
  }
}

// Calls body(std::integral_constant<DType, dtype>) for a dtype of weights.
template <class Body>
void with_dtype(DType dtype, const Body& body) {
  const auto is = [&]<DType... all>() {
    ((dtype == all ? body(std::integral_constant<DType, all>()) : void()), ...);
  };
  is.template
  operator()<DType::f32, DType::bf16, DType::f16, DType::i8, DType::q8_0, DType::q4_0, DType::q4_1,
             DType::q5_0, DType::q5_1, DType::iq4_nl, DType::q4_k, DType::q5_k, DType::q6_k>();
}

inline constexpr int kEight = 8;
struct alignas(16) SixteenBytes {
  uint32_t words[4];
};

// Whether rows begin at multiples of 16 bytes.
inline bool rows_are_aligned(const void* data, int64_t row_bytes) {
  constexpr auto kBytes = static_cast<int64_t>(sizeof(SixteenBytes));
  return reinterpret_cast<uintptr_t>(data) % kBytes == 0 && row_bytes % kBytes == 0;
}

// Eight numbers, read as 16 bytes at a time if `aligned` to them.
QKV_DEVICE inline void eight_floats(const float* from, bool aligned, float* to) {
  if (aligned) {
    const auto* const bytes = reinterpret_cast<const SixteenBytes*>(from);
    QKV_UNROLL for (int i = 0; i < kEight; ++i) to[i] = float_of_bits(bytes[i / 4].words[i % 4]);
  } else {
    QKV_UNROLL for (int i = 0; i < kEight; ++i) to[i] = from[i];
  }
}

// Numbers col to col + 7 of a row, where col is a multiple of 8. `aligned`: rows of 16-bit numbers and of f32
// begin at multiples of 16 bytes.
template <DType dtype>
QKV_DEVICE void eight_elements(const WeightRows& w, int64_t row, int64_t col, bool aligned, float* to) {
  [[maybe_unused]] const int64_t first = row * w.stride + col;
  if constexpr (in_blocks(dtype)) {
    int place = 0;
    const std::byte* const block = block_of<dtype>(w, first, &place);
    const Grid grid = grid_of<dtype>(block, place);
    QKV_UNROLL for (int i = 0; i < kEight; ++i) to[i] =
        grid.scale * static_cast<float>(integer_of<dtype>(block, place + i)) + grid.offset;
  } else if constexpr (dtype == DType::f32) {
    eight_floats(static_cast<const float*>(w.data) + first, aligned, to);
  } else if (dtype == DType::i8 || !aligned) {
    QKV_UNROLL for (int i = 0; i < kEight; ++i) to[i] = element<dtype>(w, row, col + i);
  } else {
    const SixteenBytes bytes =
        *reinterpret_cast<const SixteenBytes*>(static_cast<const uint16_t*>(w.data) + first);
    QKV_UNROLL for (int i = 0; i < kEight; ++i) {
      const auto bits = static_cast<uint16_t>(bytes.words[i / 2] >> (i % 2 * 16));
      to[i] = dtype == DType::bf16 ? widened_bf16(bits) : widened_f16(bits);
    }
  }
}

}  // namespace qkv::kernels::cuda
