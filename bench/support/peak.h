#pragma once

namespace qkv::bench {

// The multiply-adds of floats that one core does just now, in GFLOP/s: measured for a few milliseconds with
// nothing but registers, in the widest vectors of this machine. Virtual machines drift: measure it beside
// what is held against it.
double peak_gflops();

}  // namespace qkv::bench
