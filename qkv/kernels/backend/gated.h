#pragma once
// The inside of a gated feed-forward (Shazeer 2020): one linear map decides how much of another passes.

#include <cstdint>

#include "qkv/kernels/accumulate.h"
#include "qkv/kernels/activation.h"
#include "qkv/kernels/dropout.h"

namespace qkv::kernels {

// y = dropout(activation(gate) * x). Rows may be columns of a wider matrix: strides are in elements.
struct Gated {
  Activation activation = Activation::silu;
  const float* gate = nullptr;  // [rows, cols]
  const float* x = nullptr;     // [rows, cols]
  int64_t gate_stride = 0, x_stride = 0;
  int64_t rows = 0, cols = 0;
  Dropout dropout = {};
};

// Where the gradient of an input goes; null data: not wanted.
struct GradientRows {
  float* data = nullptr;
  int64_t stride = 0;
  Accumulate accumulate = Accumulate::no;
};

}  // namespace qkv::kernels
