#pragma once
// Work counted while it is done, for holding cost models against and for profiles.

#include <cstdint>

namespace qkv::kernels {

// Adds to the multiplications counted; kernels call it once each, with what the mathematics needs (no
// padding).
void count_macs(uint64_t macs);

// Adds to the numbers (of 4 bytes) counted that had to be read or written; kernels call it once each, with
// every input and every output once, and twice where a result is added to what is there. What comes from a
// cache or is read again counts no more and no less.
void count_elements(int64_t elements);
// The same in bytes.
void count_bytes(int64_t bytes);

// What has been counted since the process began, by all threads.
uint64_t counted_macs();
uint64_t counted_bytes();

}  // namespace qkv::kernels
