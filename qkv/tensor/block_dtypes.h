#pragma once
// ggml's formats of weights in blocks (ggml-org/ggml, src/ggml-quants.c): q8_0, q4_0, q4_1, q5_0, q5_1 and
// iq4_nl have blocks of 32 numbers, q4_k, q5_k and q6_k of 256, in groups of 32 or 16 that have a scale each.

#include <cstddef>
#include <cstdint>

#include "qkv/tensor/dtype.h"

namespace qkv {

// Numbers with one scale: number i is scale * integers[i] + offset, rounded after each of the two. integers
// are from -128 to 127. Without an offset, nothing is added: -0 stays.
struct NumberGroup {
  static constexpr int64_t kMost = 32;
  int8_t integers[kMost];
  float scale = 0, offset = 0;
};

// The numbers of a group, 32 or 16, and whether groups have offsets. Requires in_blocks(dtype).
constexpr int64_t group_of(DType dtype) { return dtype == DType::q6_k ? 16 : 32; }
constexpr bool has_offsets(DType dtype) {
  return dtype == DType::q4_1 || dtype == DType::q5_1 || dtype == DType::q4_k || dtype == DType::q5_k;
}

// Reads the groups of a block.
void read_block(DType dtype, const std::byte* block, NumberGroup* groups);

// `count` numbers as f32, a multiple of the block: exactly those of ggml's dequantize_row_*.
void widen_blocks(DType dtype, const void* blocks, int64_t count, float* to);

}  // namespace qkv
