#pragma once
// Work counted while it is done, for holding cost models against and for profiles. The functions of
// qkv/kernels/*.h count before they call a backend, so that every device counts alike.

#include <cstdint>

namespace qkv::kernels {

// Adds to the multiply-accumulates counted: those of the equations, without padding and without what a
// backend computes twice to save memory.
void count_macs(uint64_t macs);

// Adds to the elements (of 4 bytes) counted that a kernel has to read or write: every input and every output
// once, and twice where a result is added to what is there. Caches and repeated reads make no difference.
// Rows and vectors beside a matrix (biases, means, labels) are left out.
void count_elements(int64_t elements);
// The same in bytes.
void count_bytes(int64_t bytes);

// What has been counted since the process began, by all threads.
uint64_t counted_macs();
uint64_t counted_bytes();

}  // namespace qkv::kernels
