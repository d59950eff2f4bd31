#include "qkv/kernels/cuda/memory.h"

#include <array>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <optional>
#include <string>

#include "qkv/base/error.h"
#include "qkv/kernels/cuda/grid.h"
#include "qkv/kernels/cuda/staging.h"

namespace qkv::kernels::cuda {

#ifdef __CUDACC__

void require_success(const char* step) {
  const cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess) return;
  if (error == cudaErrorMemoryAllocation) throw std::bad_alloc();
  throw Error(concat("device cuda: ", step, ": ", cudaGetErrorString(error)));
}

namespace {

// A GPU's ring, and the events of its slices.
struct Staging {
  explicit Staging(cudaStream_t stream)
      : ring(
            pinned(), [this, stream](size_t slice) { cudaEventRecord(events.at(slice), stream); },
            [this](size_t slice) { cudaEventSynchronize(events.at(slice)); }) {
    for (cudaEvent_t& event : events) cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    require_success("pinned memory");
  }

  static std::byte* pinned() {
    void* memory = nullptr;
    cudaHostAlloc(&memory, StagingRing::kSlices * StagingRing::kSliceBytes, cudaHostAllocDefault);
    require_success("pinned memory");
    return static_cast<std::byte*>(memory);
  }

  std::mutex mutex;
  std::array<cudaEvent_t, StagingRing::kSlices> events = {};
  StagingRing ring;
};

struct Gpu {
  std::string problem;  // empty: it can be used
  cudaStream_t stream = nullptr;
  Staging* staging = nullptr;  // as long as the process, like the stream
};

std::string problem_of(int index) {
  int driver = 0, devices = 0, major = 0;
  cudaDriverGetVersion(&driver);
  if (driver == 0) return "expected an NVIDIA driver, found none";
  if (driver < CUDART_VERSION)
    return concat("expected an NVIDIA driver for CUDA ", CUDART_VERSION / 1000, ".",
                  CUDART_VERSION % 1000 / 10, ", found one for ", driver / 1000, ".", driver % 1000 / 10);
  const cudaError_t error = cudaGetDeviceCount(&devices);
  if (error != cudaSuccess || devices == 0)
    return concat("expected a GPU, found none: ", cudaGetErrorString(error));
  if (index >= devices) return concat("expected a GPU with a number below ", devices);
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index);
  if (major < 8) return concat("expected a GPU of compute capability 8.0 or more, found ", major, ".x");
  return "";
}

cudaStream_t stream_of(int index) {
  // Freed blocks stay in the pool for the next ones.
  cudaMemPool_t pool = nullptr;
  uint64_t all = UINT64_MAX;
  cudaDeviceGetDefaultMemPool(&pool, index);
  cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all);
  cudaStream_t made = nullptr;
  cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking);
  require_success("the stream");
  return made;
}

thread_local int selected = -1;
thread_local cudaStream_t selected_stream = nullptr;
thread_local Staging* selected_staging = nullptr;

}  // namespace

const char* select_gpu(int index) {
  // Another library in this process may have changed the thread's device.
  if (int current = -1; index == selected && cudaGetDevice(&current) == cudaSuccess && current == index)
    return nullptr;
  static std::mutex mutex;
  static std::array<std::optional<Gpu>, kMostGpus> gpus;
  const std::lock_guard lock(mutex);
  std::optional<Gpu>& gpu = gpus.at(static_cast<size_t>(index));
  if (!gpu) gpu.emplace(Gpu{.problem = problem_of(index)});
  if (!gpu->problem.empty()) return gpu->problem.c_str();
  cudaSetDevice(index);
  require_success("its selection");
  if (gpu->stream == nullptr) gpu->stream = stream_of(index);
  if (gpu->staging == nullptr) gpu->staging = new Staging(gpu->stream);
  selected = index;
  selected_stream = gpu->stream;
  selected_staging = gpu->staging;
  return nullptr;
}

void* stream() { return selected_stream; }

namespace {

cudaStream_t cuda_stream() { return static_cast<cudaStream_t>(stream()); }

std::byte* take(size_t bytes) {
  void* block = nullptr;
  cudaMallocAsync(&block, bytes, cuda_stream());
  require_success("memory");
  return static_cast<std::byte*>(block);
}
// Errors are ignored: at the end of the program the driver may be gone.
void give(std::byte* block, void* where) { cudaFreeAsync(block, static_cast<cudaStream_t>(where)); }

// Submits a copy.
void move_rows(CopyDirection direction, const ConstByteRows& from, const ByteRows& to, size_t row_bytes,
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

Staging& staging() { return *selected_staging; }

void zero_rows(const ByteRows& to, size_t row_bytes, size_t rows) {
  cudaMemset2DAsync(to.data, rows == 1 ? row_bytes : to.stride, 0, row_bytes, rows, cuda_stream());
  require_success("a fill");
}

}  // namespace

#else

void require_success(const char* /*step*/) {}
void* stream() { return nullptr; }

namespace {

struct Staging {
  std::mutex mutex;
  std::array<std::byte, StagingRing::kSlices * StagingRing::kSliceBytes> memory;
  StagingRing ring{memory.data(), [](size_t) {}, [](size_t) {}};
};

constexpr int kGpusOfHost = 2;  // for tests
thread_local int selected = -1;

}  // namespace

const char* select_gpu(int index) {
  if (index >= kGpusOfHost) return "expected a GPU with a number below 2";
  selected = index;
  return nullptr;
}

namespace {

// Floats of new memory are NaN, as on the reference device.
std::byte* take(size_t bytes) {
  auto* const block = static_cast<std::byte*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64));
  if (block == nullptr) throw std::bad_alloc();
  std::memset(block, 0xFF, bytes);
  return block;
}
void give(std::byte* block, void* /*where*/) { std::free(block); }

void move_rows(CopyDirection /*direction*/, const ConstByteRows& from, const ByteRows& to, size_t row_bytes,
               size_t rows) {
  for (size_t row = 0; row < rows; ++row)
    std::memcpy(to.data + row * to.stride, from.data + row * from.stride, row_bytes);
}

Staging& staging() {
  static auto* const only = new Staging;
  return *only;
}

void zero_rows(const ByteRows& to, size_t row_bytes, size_t rows) {
  for (size_t row = 0; row < rows; ++row) std::memset(to.data + row * to.stride, 0, row_bytes);
}

}  // namespace

#endif

namespace {

// Small copies to the device pass through pinned memory; large ones, as of weights, need not be fast.
void copy_rows(CopyDirection direction, const ConstByteRows& from, const ByteRows& to, size_t row_bytes,
               size_t rows) {
  const size_t bytes = rows * row_bytes;
  if (direction != CopyDirection::to_device || bytes > StagingRing::kSliceBytes)
    return move_rows(direction, from, to, row_bytes, rows);
  Staging& pinned = staging();
  const std::lock_guard lock(pinned.mutex);
  std::byte* const staged = pinned.ring.take(bytes);
  for (size_t row = 0; row < rows; ++row)
    std::memcpy(staged + row * row_bytes, from.data + row * from.stride, row_bytes);
  move_rows(direction, {staged, row_bytes}, to, row_bytes, rows);
}

}  // namespace

int selected_gpu() { return selected; }

Storage Memory::allocate(size_t bytes) {
  // A tensor may be freed by a thread that uses another GPU, or none.
  return {take(bytes < 64 ? 64 : bytes), [where = stream()](std::byte* block) { give(block, where); }};
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
