#pragma once
// Counters of executed work, for comparison with cost models and for profiles. The functions of
// qkv/kernels/*.h count before calling a backend, so that counts are independent of the device.

#include <cstdint>

namespace qkv::kernels {

// Adds to the multiply-accumulates: those of the equations, without padding and recomputation.
void count_macs(uint64_t macs);

// Adds to the elements (of 4 bytes) that a kernel must read or write: every input and output once, and twice
// if the result is accumulated, regardless of caches and repeated reads. Rows and vectors besides a matrix
// (biases, means, labels) are ignored.
void count_elements(int64_t elements);
// Likewise in bytes.
void count_bytes(int64_t bytes);

// Totals since the process started, over all threads.
uint64_t counted_macs();
uint64_t counted_bytes();

}  // namespace qkv::kernels
