#pragma once
// Operands of f32 or bf16. Kernels compute with them in f32, and round a result once, when they store it.

#include <cstddef>
#include <cstdint>

#include "qkv/base/error.h"
#include "qkv/tensor/dtype.h"

namespace qkv::kernels {

inline void require_f32(DType dtype) {
  if (dtype != DType::f32) [[unlikely]]
    throw UsageError(concat("device cpu: expected activations of f32, found ", name_of(dtype)));
}

// Numbers that a kernel reads. Null: none.
struct Elements {
  const void* data = nullptr;
  DType dtype = DType::f32;

  constexpr Elements() = default;
  constexpr Elements(std::nullptr_t) {}
  constexpr Elements(const float* numbers) : data(numbers) {}
  constexpr Elements(const BFloat16* numbers) : data(numbers), dtype(DType::bf16) {}
  constexpr Elements(const void* numbers, DType type) : data(numbers), dtype(type) {}

  constexpr bool operator==(std::nullptr_t) const { return data == nullptr; }
  // Those from number i on.
  Elements operator+(int64_t i) const {
    return {static_cast<const std::byte*>(data) + i * static_cast<int64_t>(layout_of(dtype).bytes), dtype};
  }
  // Of backends that know no other dtype. Throws UsageError for bf16.
  const float* f32() const {
    require_f32(dtype);
    return static_cast<const float*>(data);
  }
};

// Numbers that a kernel writes, or adds to. Null: none.
struct MutableElements {
  void* data = nullptr;
  DType dtype = DType::f32;

  constexpr MutableElements() = default;
  constexpr MutableElements(std::nullptr_t) {}
  constexpr MutableElements(float* numbers) : data(numbers) {}
  constexpr MutableElements(BFloat16* numbers) : data(numbers), dtype(DType::bf16) {}
  constexpr MutableElements(void* numbers, DType type) : data(numbers), dtype(type) {}

  constexpr operator Elements() const { return {data, dtype}; }
  constexpr bool operator==(std::nullptr_t) const { return data == nullptr; }
  MutableElements operator+(int64_t i) const {
    return {static_cast<std::byte*>(data) + i * static_cast<int64_t>(layout_of(dtype).bytes), dtype};
  }
  float* f32() const {
    require_f32(dtype);
    return static_cast<float*>(data);
  }
};

}  // namespace qkv::kernels
