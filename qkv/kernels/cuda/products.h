#pragma once
// Products of matrices on the device.

#include <cstdint>

#include "qkv/kernels/weight_rows.h"
#include "qkv/tensor/dtype.h"

namespace qkv::kernels::cuda {

// A row-major matrix as stored; `transposed`: the product reads its transpose.
struct Operand {
  const void* data = nullptr;
  int64_t stride = 0;
  bool transposed = false;
  int64_t batch_stride = 0;
};

// c [m, n] (+)= a [m, k] b [k, n] + bias [n], for each of a batch; sums in f32.
struct Gemm {
  int64_t m = 0, n = 0, k = 0;
  Operand a, b;
  DType operands = DType::f32;  // f32 or bf16
  const float* bias = nullptr;  // null: none
  float* c = nullptr;
  int64_t c_stride = 0;
  bool accumulate = false;
  int64_t batch = 1, c_batch_stride = 0;
};

// By cuBLASLt, which is loaded when it is first needed. The order of sums is the same for all m up to
// kManyRows, and for all above.
void gemm(const Gemm& product);
inline constexpr int64_t kManyRows = 128;

// c [rows, w.rows] (+)= x w^T + bias for at most kFewRows rows x [rows, w.cols], which read the weights once,
// as they are stored. The order of sums does not depend on the number of rows.
void multiply_few_rows(int64_t rows, const float* x, int64_t x_stride, const WeightRows& w, const float* bias,
                       float* c, int64_t c_stride, bool accumulate);
inline constexpr int64_t kFewRows = 8;

}  // namespace qkv::kernels::cuda
