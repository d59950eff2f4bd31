#pragma once
// Products of matrices by cuBLASLt, which is loaded when it is first needed.

#include <cstdint>

namespace qkv::kernels::cuda {

// A row-major matrix as stored; `transposed`: the product reads its transpose.
struct Operand {
  const float* data = nullptr;
  int64_t stride = 0;
  bool transposed = false;
  int64_t batch_stride = 0;
};

// c [m, n] (+)= a [m, k] b [k, n], for each of a batch; sums in f32.
void gemm(int64_t m, int64_t n, int64_t k, const Operand& a, const Operand& b, float* c, int64_t c_stride,
          bool accumulate, int64_t batch = 1, int64_t c_batch_stride = 0);

}  // namespace qkv::kernels::cuda
