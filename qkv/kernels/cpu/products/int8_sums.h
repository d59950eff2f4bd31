#pragma once
// sums[r * kPartCols + c] = sum_i q[r][i] w[c][i], exactly, for a part of an int8 product with at most
// kSumRows rows (gemm_nt.h), with machine-specific instructions that Highway 1.0 lacks. Each function
// requires its use_...(); the portable code of gemm_nt.cc gives the same sums.

#include <cstdint>

#include "qkv/kernels/cpu/products/gemm_nt.h"

namespace qkv::kernels {

// Maximum rows per step, a multiple of kAmxRows: their sums stay in the L1 cache.
inline constexpr int64_t kSumRows = 96;

bool machine_has_vnni();
bool use_vnni();  // available, and allowed by QKV_ISA (instruction_set.h)
void int8_sums_vnni(const GemmTile& part, int32_t* sums);

// For rows in tiles (pack_amx_tiles). Writes sums up to the next multiple of 16 rows and columns.
bool machine_has_amx();
// Requests the tile registers from Linux: 8 KiB that every thread switch must save from then on.
bool request_amx();
bool use_amx();
void int8_sums_amx(const GemmTile& part, int32_t* sums);

// Rows of a tile, and numbers per row.
inline constexpr int64_t kAmxRows = 16, kAmxDepth = 64;

// Packs kAmxRows rows of `stride` numbers, a multiple of kAmxDepth, into AMX's layout: tile by tile, and
// within a tile four numbers of each row, then the next four of each.
void pack_amx_tiles(const uint8_t* rows, int64_t stride, uint8_t* tiles);

}  // namespace qkv::kernels
