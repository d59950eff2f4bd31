#pragma once
// Arithmetic of two arrays with broadcasting, and sums along an axis.

#include <array>
#include <cstdint>

#include "qkv/kernels/backend/elements.h"
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
  Elements x = {}, y = {};
  MutableElements z = {};
  Accumulate accumulate = Accumulate::no;

  // Elements i of the result's indices in their order, of x, y and z. constexpr: for GPUs too.
  struct Places {
    int64_t x = 0, y = 0, z = 0;
  };
  constexpr Places places(int64_t i) const {
    Places at;
    for (int axis = kAxes; axis-- > 0; i /= extents[axis]) {
      const int64_t index = i % extents[axis];
      at.x += index * x_strides[axis];
      at.y += index * y_strides[axis];
      at.z += index * z_strides[axis];
    }
    return at;
  }
};

// y[o, i] (+)= factor * sum_n x[o, n, i], contiguous. The order of summation depends on `count` only.
struct AxisSum {
  Elements x = {};  // [outer, count, inner]
  int64_t outer = 1, count = 1, inner = 1;
  float factor = 1;
  MutableElements y = {};  // [outer, inner]
  Accumulate accumulate = Accumulate::no;
};

}  // namespace qkv::kernels
