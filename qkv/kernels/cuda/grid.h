#pragma once
// Kernels as functions of a thread, and their launch.
//
// The same source is compiled twice: by nvcc, and by the host's compiler with blocks of one thread, one after
// the other, so that tests run every kernel's arithmetic on machines without a GPU. A kernel therefore works
// for any number of threads in a block: loops go from `index` in steps of `count`.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "qkv/kernels/kinds.h"

#ifdef __CUDACC__
#define QKV_DEVICE __device__
#define QKV_UNROLL _Pragma("unroll")  // a loop over an array, so that it stays in registers
#else
#define QKV_DEVICE
#define QKV_UNROLL
#endif

namespace qkv::kernels::cuda {

// The order of sums depends on it, and therefore the bits: it is the same for all batches.
inline constexpr int kThreads = 128;

// A thread of a block. Functions that name the block are called by all of its threads.
struct Thread {
  int64_t block = 0;
  int index = 0, count = 1;
  std::byte* shared = nullptr;  // as many bytes as the launch asked for

  QKV_DEVICE void synchronise() const {
#ifdef __CUDA_ARCH__
    __syncthreads();
#endif
  }

  // The warp: 32 threads of the block that compute in step.
  static constexpr int kLanes = 32;
  QKV_DEVICE int lane() const { return index % kLanes; }
  QKV_DEVICE int lanes() const { return count < kLanes ? count : kLanes; }
  QKV_DEVICE int warp() const { return index / kLanes; }
  QKV_DEVICE int warps() const { return count < kLanes ? 1 : count / kLanes; }
  QKV_DEVICE static void synchronise_warp() {
#ifdef __CUDA_ARCH__
    __syncwarp();
#endif
  }
  // The sum over the warp, in all of its threads.
  QKV_DEVICE static float warp_sum(float value) {
#ifdef __CUDA_ARCH__
    for (int other = kLanes / 2; other > 0; other /= 2) value += __shfl_xor_sync(0xFFFFFFFFu, value, other);
#endif
    return value;
  }

  // The sum and the maximum over the block, in all threads.
  QKV_DEVICE double sum(double value) const {
    return reduce(value, [](double a, double b) { return a + b; });
  }
  QKV_DEVICE float maximum(float value) const {
    return static_cast<float>(reduce(value, [](double a, double b) { return a > b ? a : b; }));
  }

 private:
  template <class Combine>
  QKV_DEVICE double reduce(double value, const Combine& combine) const {
#ifdef __CUDA_ARCH__
    __shared__ double of_warps[32];
    for (int other = kLanes / 2; other > 0; other /= 2)
      value = combine(value, __shfl_xor_sync(0xFFFFFFFFu, value, other));
    __syncthreads();  // the results before have been read
    if (lane() == 0) of_warps[warp()] = value;
    __syncthreads();
    value = of_warps[0];
    for (int other = 1; other < warps(); ++other) value = combine(value, of_warps[other]);
#else
    static_cast<void>(combine);
#endif
    return value;
  }
};

// The stream of all work of this process on the selected GPU; null on the host.
void* stream();
// Throws Error, naming the step, if CUDA has reported an error.
void require_success(const char* step);

#ifdef __CUDACC__
template <class Body>
__global__ void run_body(Body body) {
  extern __shared__ __align__(16) std::byte shared[];
  body(Thread{static_cast<int64_t>(blockIdx.x), static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x),
              shared});
}
#endif

// Runs body(thread) for all threads of the blocks.
template <class Body>
void launch(int64_t blocks, const Body& body, size_t shared = 0) {
  if (blocks == 0) return;
#ifdef __CUDACC__
  if (shared > 48 * 1024)
    cudaFuncSetAttribute(run_body<Body>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         static_cast<int>(shared));
  run_body<Body>
      <<<static_cast<unsigned>(blocks), kThreads, shared, static_cast<cudaStream_t>(stream())>>>(body);
  require_success("a kernel");
#else
  auto* const memory = new std::byte[shared + 1];
  for (int64_t block = 0; block < blocks; ++block) body(Thread{block, 0, 1, memory});
  delete[] memory;
#endif
}

// body(i) for i below count.
template <class Body>
void for_each(int64_t count, const Body& body) {
  constexpr int64_t kPerBlock = 8 * kThreads;
  launch((count + kPerBlock - 1) / kPerBlock, [=] QKV_DEVICE(const Thread& thread) {
    const int64_t first = thread.block * kPerBlock, rest = count - first;
    for (int64_t i = thread.index; i < (rest < kPerBlock ? rest : kPerBlock); i += thread.count)
      body(first + i);
  });
}

QKV_DEVICE inline void put(float& to, float value, Accumulate accumulate) {
  to = accumulate == Accumulate::yes ? to + value : value;
}

}  // namespace qkv::kernels::cuda
