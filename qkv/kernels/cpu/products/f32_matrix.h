#pragma once
// The matrices of products within the CPU backend, which computes in f32.

#include <cstdint>

#include "qkv/kernels/backend/matmul.h"

namespace qkv::kernels {

struct F32Matrix {
  const float* data = nullptr;
  int64_t rows = 0, cols = 0;
  int64_t stride = 0;

  operator Matrix() const { return {data, rows, cols, stride}; }
};

struct MutableF32Matrix {
  float* data = nullptr;
  int64_t rows = 0, cols = 0;
  int64_t stride = 0;
};

// Throw UsageError for bf16.
inline F32Matrix f32(const Matrix& m) { return {m.data.f32(), m.rows, m.cols, m.stride}; }
inline MutableF32Matrix f32(const MutableMatrix& m) { return {m.data.f32(), m.rows, m.cols, m.stride}; }

}  // namespace qkv::kernels
