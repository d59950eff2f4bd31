#pragma once
// The integers of ggml's blocks (block_dtypes.h) and where their bits lie; block_dtypes.h reads them.

#include <array>

#include "qkv/tensor/block_dtypes.h"

namespace qkv {

// Replaces the integers of a block by those of its groups, as read_block() gives them. Scales stay. Requires
// integers that the format can hold.
void put_integers(DType dtype, const NumberGroup* groups, std::byte* block);

// The smallest and the largest integer; of iq4_nl, the outermost steps.
struct IntegerRange {
  int8_t lowest, highest;
};
IntegerRange integers_of(DType dtype);
// The integers that the codes 0 to 15 of iq4_nl stand for, in ascending order; and the code of one of them.
const std::array<float, 16>& steps_of_iq4_nl();
uint8_t code_of_step(float step);

// Writes a block's integers as codes: less the lowest integer; two's complements of q8_0; of iq4_nl, codes of
// steps. Scales stay.
void pack_codes(DType dtype, const uint8_t* codes, std::byte* block);

}  // namespace qkv
