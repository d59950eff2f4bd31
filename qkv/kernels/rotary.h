#pragma once
// Rotary position embedding (Su et al. 2021).

#include "qkv/kernels/backend/rotary.h"
#include "qkv/tensor/tensor.h"

namespace qkv::kernels {

// y (+)= x with each head's points rotated by the angles of the row's position; see Rotary.
struct RotaryTensors {
  // [rows, heads * d], possibly columns of a wider matrix; y may be x if it is written.
  Tensor x = {}, y = {};
  int64_t heads = 1;
  Tensor cosines = {}, sines = {};  // [positions, r / 2], r features of each head being rotated
  Tensor positions = {};            // i32 [rows]: row of the tables
  Turn direction = Turn::forward;
  Accumulate accumulate = Accumulate::no;
};

void rotary(RotaryTensors arguments);

}  // namespace qkv::kernels
