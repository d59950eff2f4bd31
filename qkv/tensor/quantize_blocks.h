#pragma once
// Numbers to ggml's blocks (block_dtypes.h), with the best scales that a search finds.

#include <cstdint>

#include "qkv/tensor/block_dtypes.h"

namespace qkv {

// Writes `count` numbers, a multiple of the block, as bytes_of(dtype, count) bytes: blocks, or f32, bf16 or
// f16, each rounded to nearest.
//
// In a block, scales (and offsets) minimise the sum of squared errors, sum (x_i - (s q_i + o))^2, over these
// candidates: s maps the number farthest from zero (for offsets: the range) to each of some 20 levels near
// the end of the integers' range; q_i are the nearest integers; then s and o are the least-squares solution
// for these q_i. Every candidate is rounded to the format's f16 before its error counts, so the error is
// never larger than that of the usual choice, which maps the extreme number to the extreme integer. q4_k,
// q5_k and q6_k: first each group alone, then the groups' integer scales by steps of one, in turns with the
// least-squares solution for the block's f16 scales.
//
// The bits depend on the numbers of the block alone. Throws NumericError for a number that is not finite,
// and, but for f32 and bf16, for one beyond f16's range; UsageError for another dtype or count.
void quantize_blocks(DType dtype, const float* numbers, int64_t count, void* to);

// The step of iq4_nl nearest to a number divided by its scale.
int8_t nearest_step(float level);

}  // namespace qkv
