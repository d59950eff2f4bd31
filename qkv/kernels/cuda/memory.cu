#include "qkv/kernels/cuda/memory.h"

#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

#include "qkv/base/error.h"
#include "qkv/kernels/cuda/grid.h"

namespace qkv::kernels::cuda {

#ifdef __CUDACC__

void require_success(const char* step) {
  const cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess) return;
  if (error == cudaErrorMemoryAllocation) throw std::bad_alloc();
  throw Error(concat("device cuda: ", step, ": ", cudaGetErrorString(error)));
}

void* stream() {
  static cudaStream_t const instance = [] {
    // Freed blocks stay in the pool for the next ones.
    cudaMemPool_t pool = nullptr;
    uint64_t all = UINT64_MAX;
    cudaDeviceGetDefaultMemPool(&pool, 0);
    cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all);
    cudaStream_t made = nullptr;
    cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking);
    require_success("the stream");
    return made;
  }();
  return instance;
}

namespace {

cudaStream_t cuda_stream() { return static_cast<cudaStream_t>(stream()); }

std::byte* take(size_t bytes) {
  void* block = nullptr;
  cudaMallocAsync(&block, bytes, cuda_stream());
  require_success("memory");
  return static_cast<std::byte*>(block);
}
void give(std::byte* block) { cudaFreeAsync(block, cuda_stream()); }

void copy_rows(CopyDirection direction, const ConstByteRows& from, const ByteRows& to, size_t row_bytes,
               size_t rows) {
  const cudaMemcpyKind kind = direction == CopyDirection::to_device ? cudaMemcpyHostToDevice
                              : direction == CopyDirection::to_host ? cudaMemcpyDeviceToHost
                                                                    : cudaMemcpyDeviceToDevice;
  const bool whole = rows == 1 || (from.stride == row_bytes && to.stride == row_bytes);
  if (whole) {
    cudaMemcpyAsync(to.data, from.data, rows * row_bytes, kind, cuda_stream());
  } else {
    cudaMemcpy2DAsync(to.data, to.stride, from.data, from.stride, row_bytes, rows, kind, cuda_stream());
  }
  if (direction == CopyDirection::to_host) cudaStreamSynchronize(cuda_stream());
  require_success("a copy");
}

void zero_rows(const ByteRows& to, size_t row_bytes, size_t rows) {
  cudaMemset2DAsync(to.data, rows == 1 ? row_bytes : to.stride, 0, row_bytes, rows, cuda_stream());
  require_success("a fill");
}

}  // namespace

#else

void require_success(const char* /*step*/) {}
void* stream() { return nullptr; }

namespace {

// Floats of new memory are NaN, as on the reference device.
std::byte* take(size_t bytes) {
  auto* const block = static_cast<std::byte*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64));
  if (block == nullptr) throw std::bad_alloc();
  std::memset(block, 0xFF, bytes);
  return block;
}
void give(std::byte* block) { std::free(block); }

void copy_rows(CopyDirection /*direction*/, const ConstByteRows& from, const ByteRows& to, size_t row_bytes,
               size_t rows) {
  for (size_t row = 0; row < rows; ++row)
    std::memcpy(to.data + row * to.stride, from.data + row * from.stride, row_bytes);
}

void zero_rows(const ByteRows& to, size_t row_bytes, size_t rows) {
  for (size_t row = 0; row < rows; ++row) std::memset(to.data + row * to.stride, 0, row_bytes);
}

}  // namespace

#endif

Storage Memory::allocate(size_t bytes) {
  return {take(bytes < 64 ? 64 : bytes), [](std::byte* block) { give(block); }};
}

void Memory::copy(CopyDirection direction, const ConstByteRows& from, const ByteRows& to, size_t row_bytes,
                  size_t rows) {
  if (rows > 0 && row_bytes > 0) copy_rows(direction, from, to, row_bytes, rows);
}

void Memory::fill_zero(const ByteRows& to, size_t row_bytes, size_t rows) {
  if (rows > 0 && row_bytes > 0) zero_rows(to, row_bytes, rows);
}

Memory& memory() {
  static auto* instance =
      new Memory;  // never destroyed: static tensors may be freed after main() has returned
  return *instance;
}

}  // namespace qkv::kernels::cuda
