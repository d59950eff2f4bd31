#pragma once
// Memory of the reference device, accessible only to its kernels and copies.

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "qkv/tensor/device_memory.h"

namespace qkv::kernels::reference {

// An in-memory file, mapped twice. Tensors hold addresses of a mapping without access rights, where any
// access raises SIGSEGV. The backend accesses the other mapping, at a constant distance.
class Memory final : public DeviceMemory {
 public:
  // Filled with 0xFF bytes: floats are NaN and integers -1 until written, which exposes kernels that read
  // uninitialised memory.
  Storage allocate(size_t bytes) override;
  void copy(CopyDirection direction, const ConstByteRows& from, const ByteRows& to, size_t row_bytes,
            size_t rows) override;
  void fill_zero(const ByteRows& to, size_t row_bytes, size_t rows) override;
};

Memory& memory();

// The readable address for a tensor's address; null for null. Throws UsageError for an address outside this
// device.
const void* readable(const void* address);
void* readable(void* address);
template <class T>
T* readable(T* address) {
  using Any = std::conditional_t<std::is_const_v<T>, const void*, void*>;
  return static_cast<T*>(readable(static_cast<Any>(address)));
}

}  // namespace qkv::kernels::reference
