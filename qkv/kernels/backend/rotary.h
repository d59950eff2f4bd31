#pragma once
// Rotary position embedding (Su et al. 2021).

#include <cstdint>

#include "qkv/kernels/accumulate.h"

namespace qkv::kernels {

enum class Turn { forward, back };

// Features i and i + d / 2 of each head form a point (as in GPT-NeoX and LLaMA; the paper pairs neighbours),
// which is rotated by angle i of the row's position:
//   y_i = x_i cos - x_{i + d/2} sin,   y_{i + d/2} = x_{i + d/2} cos + x_i sin
struct Rotary {
  const float* x = nullptr;  // [rows, heads * d] with x_stride
  int64_t x_stride = 0;
  float* y = nullptr;  // likewise with y_stride; may be x with Accumulate::no
  int64_t y_stride = 0;
  int64_t rows = 0, heads = 1;
  int64_t d = 0;                   // head width, even
  const float* cosines = nullptr;  // [positions, d / 2]
  const float* sines = nullptr;
  const int32_t* positions = nullptr;  // [rows]: row of the tables
  Turn direction = Turn::forward;      // back: negative angle
  Accumulate accumulate = Accumulate::no;
};

}  // namespace qkv::kernels
