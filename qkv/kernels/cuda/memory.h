#pragma once
// Memory of the selected GPU, and arrays of arguments that are copied there.

#include <cstdint>
#include <span>
#include <vector>

#include "qkv/tensor/device_memory.h"

namespace qkv::kernels::cuda {

// Makes a GPU the one that this thread uses. Null if it can be used, else what was expected and what was
// found.
const char* select_gpu(int index);
int selected_gpu();

// Blocks of CUDA's pool, allocated and freed in the order of the stream.
class Memory final : public DeviceMemory {
 public:
  Storage allocate(size_t bytes) override;
  void copy(CopyDirection direction, const ConstByteRows& from, const ByteRows& to, size_t row_bytes,
            size_t rows) override;
  void fill_zero(const ByteRows& to, size_t row_bytes, size_t rows) override;
};

Memory& memory();

// An array on the device, freed behind the work that was submitted in its lifetime.
template <class T>
class Array {
 public:
  explicit Array(int64_t count)
      : storage_(memory().allocate(static_cast<size_t>(count > 0 ? count : 1) * sizeof(T))) {}
  // A copy of an array of the host, which may change when the constructor returns.
  explicit Array(std::span<const T> host) : Array(std::ssize(host)) {
    const auto* const bytes = reinterpret_cast<const std::byte*>(host.data());
    memory().copy(CopyDirection::to_device, {bytes, host.size_bytes()}, {storage_.get(), host.size_bytes()},
                  host.size_bytes(), 1);
  }
  Array(const T* host, int64_t count) : Array(std::span<const T>(host, static_cast<size_t>(count))) {}

  T* data() const { return reinterpret_cast<T*>(storage_.get()); }

 private:
  Storage storage_;
};

}  // namespace qkv::kernels::cuda
