#pragma once
// The inner part of a gated feed-forward (Shazeer 2020): the product of a linear map and an activated gate.

#include <cstdint>

#include "qkv/kernels/backend/elements.h"
#include "qkv/kernels/dropout.h"
#include "qkv/kernels/kinds.h"

namespace qkv::kernels {

// y = dropout(activation(gate) * x). Rows may be columns of a wider matrix: strides are in elements.
struct Gated {
  Activation activation = Activation::silu;
  Elements gate = {};  // [rows, cols]
  Elements x = {};     // [rows, cols]
  int64_t gate_stride = 0, x_stride = 0;
  int64_t rows = 0, cols = 0;
  Dropout dropout = {};
};

// Destination of an input's gradient; null data: not wanted.
struct GradientRows {
  MutableElements data = {};
  int64_t stride = 0;
  Accumulate accumulate = Accumulate::no;
};

}  // namespace qkv::kernels
