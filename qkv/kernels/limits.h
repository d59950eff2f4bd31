#pragma once
// Measures the machine's peak rates, with which kernel speeds are compared.

#include <string>

namespace qkv::kernels {

// The instruction set of the kernels, selected at start-up: "AVX-512", "AVX2", "SSE4", "NEON" or "portable".
std::string instructions();

// The processor's name from the operating system, or "unknown processor".
std::string processor_name();

// The current multiply-add rate of one core, in GFLOP/s (2 per multiply-add): a few milliseconds in
// registers, in the widest vectors, by this thread's processor time, so that other load does not count.
// Virtual machines drift: measure it close to the compared measurement.
double peak_gflops();

struct MachineLimits {
  int threads = 1;
  double gflops = 0;          // all threads together, by wall-clock time
  double read_gb_per_s = 0;   // 10^9 bytes: a sum over an array larger than any cache
  double triad_gb_per_s = 0;  // a[i] = b[i] + s c[i] (McCalpin's STREAM), counting three arrays
  double bandwidth() const { return read_gb_per_s > triad_gb_per_s ? read_gb_per_s : triad_gb_per_s; }
};

// With threads() threads, in about half a second and 192 MiB of memory; the best of several runs each.
MachineLimits measure_limits();

}  // namespace qkv::kernels
