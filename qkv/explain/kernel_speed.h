#pragma once
// Speed of the kernels on this machine, for typical model shapes.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "qkv/tensor/device.h"

namespace qkv::explain {

struct KernelSpeed {
  std::string kernel;  // "attention backward"
  std::string shape;   // "8 heads of 64, 32 x 128 tokens, causal"
  double seconds = 0;  // of one call: the median, or the mean on a device that queues its work
  int64_t calls = 0;   // timed calls
  uint64_t macs = 0;   // multiply-accumulates of one call (kernels::counted_macs)
  uint64_t bytes = 0;  // read and written by one call (kernels::counted_bytes)
  double gflops() const { return 2e-9 * static_cast<double>(macs) / seconds; }
  double gb_per_s() const { return 1e-9 * static_cast<double>(bytes) / seconds; }
  // Products are compared with the multiply-add peak, other kernels with the memory bandwidth.
  bool multiplies() const { return macs > 0; }
};

struct KernelSpeedOptions {
  double seconds = 0.15;  // per kernel and shape, after one warm-up call
  Device device = Device::cpu;
  // Called with each result as it arrives.
  std::function<void(const KernelSpeed&)> on_result = {};
  // Polled between kernels; returning true ends the measurement.
  std::function<bool()> stop = {};
};

// The rates of a device other than the CPU, which kernels/limits.h measures: a product of bf16 matrices of up
// to 8192 x 8192 numbers, and a copy of 256 MiB. 0 if `stop` came before.
struct DeviceLimits {
  double gflops = 0, gb_per_s = 0;
};
// Throws UsageError unless `seconds` is above 0, and for a device that is not there.
DeviceLimits measure_device(const KernelSpeedOptions& options);

// Measures matrix products, attention, norms, activations, loss, optimizer and embedding, forward and
// backward, on random data with threads() threads. Throws UsageError unless `seconds` is above 0.
std::vector<KernelSpeed> measure_kernels(const KernelSpeedOptions& options);

}  // namespace qkv::explain
