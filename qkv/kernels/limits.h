#pragma once
// What this machine can do at most: measured now, and what the speed of everything else is held against.

#include <string>

namespace qkv::kernels {

// The vector instructions that the kernels run on, chosen when the program starts: "AVX-512", "AVX2", "SSE4",
// "NEON" or "portable".
std::string instructions();

// The processor's name as the system gives it; "unknown processor" where it gives none.
std::string processor_name();

// The multiply-adds of floats that one core does just now, in GFLOP/s (2 a multiply-add): some milliseconds
// of nothing but registers, in the widest vectors, by this thread's processor time, so that company on the
// machine does not show. Virtual machines drift: measure it beside what is held against it.
double peak_gflops();

struct MachineLimits {
  int threads = 1;
  double gflops = 0;          // of all threads together, by the clock on the wall
  double read_gb_per_s = 0;   // 10^9 bytes: a sum over an array that no cache holds
  double triad_gb_per_s = 0;  // a[i] = b[i] + s c[i] (McCalpin's STREAM), three arrays counted
  double bandwidth() const { return read_gb_per_s > triad_gb_per_s ? read_gb_per_s : triad_gb_per_s; }
};

// With threads() threads, in about half a second and 192 MiB of memory; the best of several turns each.
MachineLimits measure_limits();

}  // namespace qkv::kernels
