#pragma once
// CPU kernels; documented in qkv/kernels/backend.h.

#include <cstdint>

namespace qkv::kernels::cpu {

void transpose(const uint32_t* x, int64_t x_stride, int64_t rows, int64_t cols, uint32_t* y);
void transpose(const uint16_t* x, int64_t x_stride, int64_t rows, int64_t cols, uint16_t* y);

}  // namespace qkv::kernels::cpu
