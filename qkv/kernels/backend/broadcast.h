#pragma once
// Arithmetic of two arrays with broadcasting, and sums along an axis.

#include <array>
#include <cstdint>

#include "qkv/kernels/kinds.h"

namespace qkv::kernels {

enum class BinaryOp { add, subtract, multiply, divide };

// z[i] (+)= x[i] op y[i] for all indices i below the extents, outermost axis first. Strides are in elements;
// a stride of 0 broadcasts (x and y only). With Accumulate::no, z may be x or y if their strides are equal.
struct Broadcast {
  static constexpr int kAxes = 5;
  BinaryOp op = BinaryOp::add;
  std::array<int64_t, kAxes> extents{1, 1, 1, 1, 1};
  std::array<int64_t, kAxes> x_strides{}, y_strides{}, z_strides{};
  const float* x = nullptr;
  const float* y = nullptr;
  float* z = nullptr;
  Accumulate accumulate = Accumulate::no;
};

// y[o, i] (+)= factor * sum_n x[o, n, i], contiguous. The order of summation depends on `count` only.
struct AxisSum {
  const float* x = nullptr;  // [outer, count, inner]
  int64_t outer = 1, count = 1, inner = 1;
  float factor = 1;
  float* y = nullptr;  // [outer, inner]
  Accumulate accumulate = Accumulate::no;
};

}  // namespace qkv::kernels
