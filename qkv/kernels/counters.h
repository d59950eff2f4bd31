#pragma once
// Work counted while it is done, for holding cost models against.

#include <cstdint>

namespace qkv::kernels {

// Adds to the multiplications counted; kernels call it once each, with what the mathematics needs (no
// padding).
void count_macs(uint64_t macs);

// The multiplications counted since the process began, those of all threads.
uint64_t counted_macs();

}  // namespace qkv::kernels
