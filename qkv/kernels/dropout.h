#pragma once
// Dropout's random bits, used by all kernels with dropout. constexpr: nvcc compiles such functions for GPUs
// too.

#include <cstdint>

#include "qkv/base/philox.h"

namespace qkv::kernels {

// A dropout site of a model in one training step. Whether element (row, column) is kept is a pure function of
// the fields and of (first_row + row, column), so that the backward pass, other threads and other splits of
// the batch draw the same. A kept element is multiplied by scale().
struct Dropout {
  float rate = 0;          // probability of dropping, in [0, 1)
  uint64_t seed = 0;       // of the run
  uint32_t step = 0;       // of training
  uint32_t site = 0;       // index of the site in the model
  uint32_t first_row = 0;  // index of row 0 in the whole batch, if workers share it

  // Probabilities are multiples of 1 / 65536: a Philox block yields eight numbers.
  constexpr uint32_t threshold() const { return static_cast<uint32_t>(rate * 65536.0f + 0.5f); }
  constexpr float scale() const { return 65536.0f / static_cast<float>(65536 - threshold()); }
  constexpr bool active() const { return threshold() > 0; }

  // The definition. Kernels compute the eight columns of a block together.
  constexpr bool keeps(uint32_t row, uint32_t column) const {
    const PhiloxCounter bits = philox4x32(seed, {first_row + row, column / 8, site, step});
    const uint32_t word = bits[(column % 8) / 2];
    return ((column % 2 == 0) ? (word & 0xFFFFu) : (word >> 16)) >= threshold();
  }
};

}  // namespace qkv::kernels
