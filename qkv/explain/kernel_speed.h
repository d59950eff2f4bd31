#pragma once
// How fast the kernels are on this machine, at the shapes that models have.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace qkv::explain {

struct KernelSpeed {
  std::string kernel;  // "attention backward"
  std::string shape;   // "8 heads of 64, 32 x 128 tokens, causal"
  double seconds = 0;  // of one call: the median
  int64_t calls = 0;   // that were timed
  uint64_t macs = 0;   // multiply-accumulates of one call, as kernels::counted_macs() has them
  uint64_t bytes = 0;  // read and written by one call, as kernels::counted_bytes() has them
  double gflops() const { return 2e-9 * static_cast<double>(macs) / seconds; }
  double gb_per_s() const { return 1e-9 * static_cast<double>(bytes) / seconds; }
  // Products are held against the multiply-add peak, everything else against the memory's bandwidth.
  bool multiplies() const { return macs > 0; }
};

struct KernelSpeedOptions {
  double seconds = 0.15;  // for each kernel at each shape, after a first call that does not count
  // Gets each result as it is there.
  std::function<void(const KernelSpeed&)> on_result = {};
  // Looked at between kernels: whether to leave the rest out.
  std::function<bool()> stop = {};
};

// Matrix products, attention, norm, activations, loss, optimizer and embedding, forward and backward, on
// random numbers, with threads() threads. Throws UsageError where `seconds` is not above 0.
std::vector<KernelSpeed> measure_kernels(const KernelSpeedOptions& options);

}  // namespace qkv::explain
