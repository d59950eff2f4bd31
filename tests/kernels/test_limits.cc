#include "qkv/kernels/limits.h"

#include <gtest/gtest.h>

#include "qkv/base/parallel.h"

namespace qkv::kernels {
namespace {

TEST(Limits, ArePlausible) {
  const int before = threads();
  set_threads(2);
  const MachineLimits limits = measure_limits();
  set_threads(before);
  EXPECT_EQ(limits.threads, 2);
  // Lower bound: a processor of 1995. Upper bound: 100 TFLOP/s per core, beyond present processors.
  EXPECT_GT(peak_gflops(), 1);
  EXPECT_LT(peak_gflops(), 1e5);
  EXPECT_GT(limits.gflops, 1);
  EXPECT_GT(limits.read_gb_per_s, 0.1);
  EXPECT_GT(limits.triad_gb_per_s, 0.1);
  EXPECT_GE(limits.bandwidth(), limits.read_gb_per_s);
  EXPECT_GE(limits.bandwidth(), limits.triad_gb_per_s);
  EXPECT_FALSE(instructions().empty());
  EXPECT_FALSE(processor_name().empty());
}

}  // namespace
}  // namespace qkv::kernels
