#pragma once
// Element types of tensors.

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>

namespace qkv {

// Operations compute in f32, i32 and u8, on devices other than the CPU in bf16 too. The others store weights
// (bf16, too) or ids (i64); of ggml's (block_dtypes.h), a block of numbers along a row shares its scales.
enum class DType : uint8_t {
  f32,
  i32,
  u8,
  bf16,
  i8,
  f16,
  i64,
  q8_0,
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q4_k,
  q5_k,
  q6_k,
  iq4_nl
};

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

// How a dtype is stored: a block of `block` numbers has `bytes` bytes. A block of one number is an element.
struct DTypeLayout {
  const char* name;
  int64_t block;
  size_t bytes;
};

// By DType. Not within layout_of(), which would copy it at each call with a variable.
inline constexpr std::array<DTypeLayout, 16> kDTypeLayouts{{{"f32", 1, 4},
                                                            {"i32", 1, 4},
                                                            {"u8", 1, 1},
                                                            {"bf16", 1, 2},
                                                            {"i8", 1, 1},
                                                            {"f16", 1, 2},
                                                            {"i64", 1, 8},
                                                            {"q8_0", 32, 34},
                                                            {"q4_0", 32, 18},
                                                            {"q4_1", 32, 20},
                                                            {"q5_0", 32, 22},
                                                            {"q5_1", 32, 24},
                                                            {"q4_k", 256, 144},
                                                            {"q5_k", 256, 176},
                                                            {"q6_k", 256, 210},
                                                            {"iq4_nl", 32, 18}}};
constexpr const DTypeLayout& layout_of(DType dtype) { return kDTypeLayouts[static_cast<size_t>(dtype)]; }

constexpr const char* name_of(DType dtype) { return layout_of(dtype).name; }
// Whether numbers are stored in blocks, which have no elements of their own.
constexpr bool in_blocks(DType dtype) { return layout_of(dtype).block > 1; }
// The bytes of this many numbers, a multiple of the block.
constexpr size_t bytes_of(DType dtype, int64_t numbers) {
  return static_cast<size_t>(numbers / layout_of(dtype).block) * layout_of(dtype).bytes;
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
