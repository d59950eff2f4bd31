#pragma once
// Rotary position embedding (Su et al. 2021).

#include <cstdint>

#include "qkv/kernels/backend/elements.h"
#include "qkv/kernels/kinds.h"

namespace qkv::kernels {

enum class Turn { forward, back };

// Features i and i + r / 2 of the first r of each head form a point (as in GPT-NeoX and LLaMA; the paper
// pairs neighbours), which is rotated by angle i of the row's position:
//   y_i = x_i cos - x_{i + r/2} sin,   y_{i + r/2} = x_{i + r/2} cos + x_i sin
// The other features stay as they are.
struct Rotary {
  Elements x = {};  // [rows, heads * d] with x_stride
  int64_t x_stride = 0;
  MutableElements y = {};  // likewise with y_stride; may be x with Accumulate::no
  int64_t y_stride = 0;
  int64_t rows = 0, heads = 1;
  int64_t d = 0;                   // head width
  int64_t rotated = 0;             // r, even, at most d
  const float* cosines = nullptr;  // [positions, r / 2]
  const float* sines = nullptr;
  const int32_t* positions = nullptr;  // [rows]: row of the tables
  Turn direction = Turn::forward;      // back: negative angle
  Accumulate accumulate = Accumulate::no;
};

}  // namespace qkv::kernels
