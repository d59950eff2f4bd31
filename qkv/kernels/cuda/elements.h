#pragma once
// Operands of f32 or bf16 in kernels, and the conversions between the two.

#include "qkv/kernels/backend/elements.h"
#include "qkv/kernels/cuda/grid.h"

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

// To nearest, ties to even.
QKV_DEVICE inline uint16_t rounded_bf16(float value) {
#ifdef __CUDA_ARCH__
  uint16_t rounded;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(rounded) : "f"(value));
  return rounded;
#else
  if (value != value) return 0x7FC0;
  const uint32_t bits = bits_of_float(value);
  return static_cast<uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
#endif
}

// Number i.
QKV_DEVICE inline float get(const Elements& x, int64_t i) {
  return x.dtype == DType::bf16 ? widened_bf16(static_cast<const uint16_t*>(x.data)[i])
                                : static_cast<const float*>(x.data)[i];
}

// Number i (+)= value, rounded once.
QKV_DEVICE inline void put(const MutableElements& to, int64_t i, float value,
                           Accumulate accumulate = Accumulate::no) {
  if (to.dtype == DType::bf16) {
    uint16_t& bits = static_cast<uint16_t*>(to.data)[i];
    bits = rounded_bf16(accumulate == Accumulate::yes ? widened_bf16(bits) + value : value);
  } else {
    put(static_cast<float*>(to.data)[i], value, accumulate);
  }
}

}  // namespace qkv::kernels::cuda
