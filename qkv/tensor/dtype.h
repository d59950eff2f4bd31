#pragma once
// What a tensor's elements are, and where they live.

#include <cstddef>
#include <cstdint>

namespace qkv {

enum class DType : uint8_t { f32, i32, u8 };

enum class Device : uint8_t { cpu };

constexpr size_t size_of(DType dtype) { return dtype == DType::u8 ? 1 : 4; }

constexpr const char* name_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "f32";
    case DType::i32:
      return "i32";
    case DType::u8:
      return "u8";
  }
  return "unknown";
}

// The DType of a C++ type: dtype_of<float> is DType::f32.
template <class T>
inline constexpr DType dtype_of = DType::f32;
template <>
inline constexpr DType dtype_of<int32_t> = DType::i32;
template <>
inline constexpr DType dtype_of<uint8_t> = DType::u8;

}  // namespace qkv
