#pragma once
// Memory of the reference device, which only its kernels and copies can read.

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "qkv/tensor/device_memory.h"

namespace qkv::kernels::reference {

// One file in memory, mapped twice. Addresses that tensors hold are in a mapping without any access: whoever
// reads or writes there is killed by SIGSEGV. The backend reads and writes the other mapping, a constant
// further on.
class Memory final : public DeviceMemory {
 public:
  // Bytes of 0xFF: floats are NaN and integers -1 until they are written, so that a kernel that reads before
  // gives itself away.
  Storage allocate(size_t bytes) override;
  void copy(CopyDirection direction, const ConstByteRows& from, const ByteRows& to, size_t row_bytes,
            size_t rows) override;
  void fill_zero(const ByteRows& to, size_t row_bytes, size_t rows) override;
};

Memory& memory();

// The readable address of what lies at a tensor's address; null of null. Throws UsageError for an address
// that is not of this device.
const void* readable(const void* address);
void* readable(void* address);
template <class T>
T* readable(T* address) {
  using Any = std::conditional_t<std::is_const_v<T>, const void*, void*>;
  return static_cast<T*>(readable(static_cast<Any>(address)));
}

}  // namespace qkv::kernels::reference
