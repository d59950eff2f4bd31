#pragma once
// Element types of tensors.

#include <concepts>
#include <cstddef>
#include <cstdint>

namespace qkv {

// Operations compute in f32, i32 and u8. bf16, f16 and i8 are storage formats of weights, i64 one of ids.
enum class DType : uint8_t { f32, i32, u8, bf16, i8, f16, i64 };

// Brain floating point: the upper half of an f32.
struct BFloat16 {
  uint16_t bits = 0;
  friend bool operator==(BFloat16, BFloat16) = default;
};

// Half-precision floating point (IEEE 754 binary16).
struct Float16 {
  uint16_t bits = 0;
  friend bool operator==(Float16, Float16) = default;
};

constexpr size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::i64:
      return 8;
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::bf16:
    case DType::f16:
      return 2;
    case DType::u8:
    case DType::i8:
      return 1;
  }
  return 1;
}

constexpr const char* name_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "f32";
    case DType::i32:
      return "i32";
    case DType::u8:
      return "u8";
    case DType::bf16:
      return "bf16";
    case DType::i8:
      return "i8";
    case DType::f16:
      return "f16";
    case DType::i64:
      return "i64";
  }
  return "unknown";
}

// The C++ types of tensor elements. Others, such as double, do not compile.
template <class T>
concept Element = std::same_as<T, float> || std::same_as<T, int32_t> || std::same_as<T, uint8_t> ||
    std::same_as<T, BFloat16> || std::same_as<T, int8_t> || std::same_as<T, Float16> ||
    std::same_as<T, int64_t>;

// The DType of a C++ type: dtype_of<float> is DType::f32.
template <Element T>
inline constexpr DType dtype_of = DType::f32;
template <>
inline constexpr DType dtype_of<int32_t> = DType::i32;
template <>
inline constexpr DType dtype_of<uint8_t> = DType::u8;
template <>
inline constexpr DType dtype_of<BFloat16> = DType::bf16;
template <>
inline constexpr DType dtype_of<int8_t> = DType::i8;
template <>
inline constexpr DType dtype_of<Float16> = DType::f16;
template <>
inline constexpr DType dtype_of<int64_t> = DType::i64;

}  // namespace qkv
