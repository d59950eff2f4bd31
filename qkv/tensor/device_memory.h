#pragma once
// The memory interface of a device other than the host: allocation and copies.

#include <cstddef>
#include <cstdint>

#include "qkv/tensor/device.h"
#include "qkv/tensor/storage.h"

namespace qkv {

// Rows of bytes with a stride in bytes.
struct ByteRows {
  std::byte* data = nullptr;
  size_t stride = 0;
};

struct ConstByteRows {
  const std::byte* data = nullptr;
  size_t stride = 0;
};

enum class CopyDirection { to_device, to_host, on_device };

// Implemented by a backend. allocate() returns device addresses, which only this class and the backend's
// kernels may dereference. Copies, fills and the freeing of memory are in order with each other and with the
// kernels; a device may queue them.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  virtual ~DeviceMemory() = default;

  // At least `bytes`, uninitialised, aligned to 64 bytes. Throws std::bad_alloc.
  virtual Storage allocate(size_t bytes) = 0;
  // Copies `rows` rows of `row_bytes` each. To the host: waits until they are there. To the device: the
  // host's rows may change when it returns.
  virtual void copy(CopyDirection direction, const ConstByteRows& from, const ByteRows& to, size_t row_bytes,
                    size_t rows) = 0;
  virtual void fill_zero(const ByteRows& to, size_t row_bytes, size_t rows) = 0;
};

// The number of times that this process has waited for a device, over all threads: each copy to the host is
// one.
int64_t device_waits();
void count_device_wait();

// The memory of a device other than the host. Throws UsageError if the program was built without its backend.
DeviceMemory& device_memory(Device device);

// Called once, by the layer that contains the backends.
using FindDeviceMemory = DeviceMemory& (*)(Device);
void set_device_memory(FindDeviceMemory find);

}  // namespace qkv
