#pragma once
// Rotary positions (Su et al. 2021).

#include "qkv/kernels/backend/rotary.h"
#include "qkv/tensor/tensor.h"

namespace qkv::kernels {

// y (+)= x with each head's points turned by the angles of the row's position, see Rotary.
struct RotaryTensors {
  Tensor x = {}, y = {};  // [rows, heads * d], which may be columns of a wider matrix; y may be x, written
  int64_t heads = 1;
  Tensor cosines = {}, sines = {};  // [positions, d / 2]
  Tensor positions = {};            // i32 [rows]: the row of the tables
  Turn direction = Turn::forward;
  Accumulate accumulate = Accumulate::no;
};

void rotary(RotaryTensors arguments);

}  // namespace qkv::kernels
