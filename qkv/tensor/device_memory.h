#pragma once
// What a device other than the host offers to tensors: memory, and copies of it.

#include <cstddef>

#include "qkv/tensor/device.h"
#include "qkv/tensor/storage.h"

namespace qkv {

// Rows of bytes, `stride` bytes apart.
struct ByteRows {
  std::byte* data = nullptr;
  size_t stride = 0;
};

enum class CopyDirection { to_device, to_host, on_device };

// Implemented by a backend. Addresses that allocate() returns are those of the device: only this class and
// the backend's kernels use what lies there.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  virtual ~DeviceMemory() = default;

  // At least `bytes`, uninitialised, aligned to 64. Throws std::bad_alloc.
  virtual Storage allocate(size_t bytes) = 0;
  // `rows` rows of `row_bytes` each. The copy is done when this returns.
  virtual void copy(CopyDirection direction, const ByteRows& from, const ByteRows& to, size_t row_bytes,
                    size_t rows) = 0;
  virtual void fill_zero(const ByteRows& to, size_t row_bytes, size_t rows) = 0;
};

// The memory of a device other than the host. Throws UsageError where the program has no backend for it.
DeviceMemory& device_memory(Device device);

// Called once, by the layer that has the backends.
using FindDeviceMemory = DeviceMemory& (*)(Device);
void set_device_memory(FindDeviceMemory find);

}  // namespace qkv
