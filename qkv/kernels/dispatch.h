#pragma once
// Selects a backend by tensors; shared by the functions of qkv/kernels/*.h.

#include "qkv/kernels/backend.h"
#include "qkv/kernels/backend/device_access.h"
#include "qkv/kernels/counters.h"
#include "qkv/tensor/tensor.h"

namespace qkv::kernels {

[[noreturn]] void throw_devices_differ(const char* kernel, const Tensor& a, const Tensor& b);

// The backend of the device of these tensors, ignoring undefined ones. Throws UsageError naming two tensors
// on different devices.
template <class... Tensors>
const Backend& backend_of(const char* kernel, const Tensor& first, const Tensors&... others) {
  [[maybe_unused]] const auto check = [&](const Tensor& other) {
    if (other.device() != first.device() && other.defined()) [[unlikely]]
      throw_devices_differ(kernel, first, other);
  };
  (check(others), ...);
  return backend(first.device());
}

// The address of a tensor's elements on its device, T void: of any dtype; null for an undefined tensor.
template <class T = float>
const T* address(const Tensor& x) {
  return x.defined() ? DeviceAccess::pointer(x.device_data<T>()) : nullptr;
}
template <class T = float>
T* address(Tensor& x) {
  return x.defined() ? DeviceAccess::pointer(x.device_data<T>()) : nullptr;
}

// That of a tensor which the kernel reads, and which may be read-only.
template <class T = float>
const T* input(const Tensor& x) {
  return address<T>(x);
}

// Operands of f32 or bf16: the numbers of a tensor that the kernel reads, and of one that it writes. Throw
// ShapeError for other dtypes.
inline Elements elements(const Tensor& x) {
  if (x.dtype() == DType::bf16) return address<BFloat16>(x);
  return address(x);
}
inline MutableElements mutable_elements(Tensor& x) {
  if (x.dtype() == DType::bf16) return address<BFloat16>(x);
  return address(x);
}

}  // namespace qkv::kernels
