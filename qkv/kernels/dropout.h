#pragma once
// Dropout's random bits, as every kernel that drops draws them.

#include <cstdint>

#include "qkv/base/philox.h"

namespace qkv::kernels {

// One place in a model where values are dropped, in one step of training. Element (row, column) is kept or
// dropped by a pure function of the fields and of (first_row + row, column), so that the backward pass,
// another thread or another split of the batch draws the same. An element that is kept is multiplied by
// scale().
struct Dropout {
  float rate = 0;          // the probability of being dropped, in [0, 1)
  uint64_t seed = 0;       // of the run
  uint32_t step = 0;       // of training
  uint32_t site = 0;       // numbers the places of a model
  uint32_t first_row = 0;  // the place of row 0 in the whole batch, which several workers may share

  // Probabilities are multiples of 1 / 65536: eight numbers come of one Philox block.
  uint32_t threshold() const { return static_cast<uint32_t>(rate * 65536.0f + 0.5f); }
  float scale() const { return 65536.0f / static_cast<float>(65536 - threshold()); }
  bool active() const { return threshold() > 0; }

  // The definition. Kernels compute the same eight columns of a block at once.
  bool keeps(uint32_t row, uint32_t column) const {
    const PhiloxCounter bits = philox4x32(seed, {first_row + row, column / 8, site, step});
    const uint32_t word = bits[(column % 8) / 2];
    return ((column % 2 == 0) ? (word & 0xFFFFu) : (word >> 16)) >= threshold();
  }
};

}  // namespace qkv::kernels
