#pragma once
// How sums over the rows of a matrix are split: into blocks whose bounds depend on the number of rows only,
// each summed by one thread; the blocks' sums are added in order.

#include <algorithm>
#include <cstdint>

namespace qkv::kernels {

inline constexpr int64_t kMaxRowBlocks = 64;

// At least 64 rows, and few enough blocks for their sums to form a single block.
inline int64_t rows_of_block(int64_t rows) {
  return std::max<int64_t>(64, (rows + kMaxRowBlocks - 1) / kMaxRowBlocks);
}

inline int64_t count_row_blocks(int64_t rows) {
  return (rows + rows_of_block(rows) - 1) / rows_of_block(rows);
}

}  // namespace qkv::kernels
