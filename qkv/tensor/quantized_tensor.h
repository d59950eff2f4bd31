#pragma once
// A weight matrix in one of the storage dtypes.

#include "qkv/tensor/tensor.h"

namespace qkv {

// A matrix [rows, cols] of f32, bf16, f16 or i8 values. Element (r, c) of an i8 matrix is values(r, c) *
// scales(r), with scales f32 [rows]; the other dtypes have no scales.
struct QuantizedTensor {
  Tensor values;
  Tensor scales = {};

  bool defined() const { return values.defined(); }
  DType dtype() const { return values.dtype(); }
  const Shape& shape() const { return values.shape(); }
};

}  // namespace qkv
