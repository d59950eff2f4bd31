#include <nlohmann/json.hpp>
#include <set>

#include "tests/apps/run.h"

namespace qkv::testing {
namespace {

TEST(Bench, MeasuresLimitsAndKernels) {
  const Outcome outcome = run_qkv({"bench", "--seconds", "0.0001", "--threads", "2", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const auto report = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(report["threads"], 2);
  EXPECT_GT(report["peak_gflops"], 1.0);
  EXPECT_GT(report["read_gb_per_s"], 0.1);
  std::set<std::string> names;
  for (const auto& kernel : report["kernels"]) {
    names.insert(kernel["kernel"]);
    EXPECT_GT(kernel["seconds"], 0.0);
    EXPECT_GE(kernel["calls"], 3);
    EXPECT_GT(kernel["bytes"], 0) << kernel;
    ASSERT_EQ(kernel.contains("of_peak"), kernel["macs"] > 0) << kernel;
    if (!kernel.contains("of_peak")) continue;
    EXPECT_GT(kernel["of_peak"], 0.0) << kernel;
    // The peak is that of f32, and varies on a busy machine.
    const std::string kind = kernel["kernel"];
    if (!kind.ends_with("int8") && !kind.ends_with("bf16")) {
      EXPECT_LT(kernel["of_peak"], 2) << kernel;
    }
  }
  for (const char* name :
       {"linear, packed", "linear, f32", "weight gradient", "attention", "attention backward", "Adam",
        "residual + norm backward", "softmax cross-entropy", "GELU", "embedding"})
    EXPECT_TRUE(names.contains(name)) << name;
  // 2048 x 512 x 512 multiplications, and both factors and the result in memory.
  EXPECT_EQ(report["kernels"][0]["macs"], 536870912);
  EXPECT_EQ(report["kernels"][0]["bytes"], 4 * (2048 * 512 + 512 * 512 + 2048 * 512));
}

/// The outcome of a bench that is interrupted once it listens for signals: later each time until it prints,
/// as no wait is long enough on every machine.
Outcome interrupted_bench(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "bench");
  Outcome outcome;
  for (int seconds = 1; outcome.out.empty() && seconds <= 64; seconds *= 2) {
    outcome = run_qkv(arguments,
                      {.environment = "timeout --preserve-status --signal=INT " + std::to_string(seconds)});
    EXPECT_EQ(outcome.status, 128 + 2) << outcome.err;
  }
  return outcome;
}

TEST(Bench, InterruptedPrintsATableOfTheResultsSoFar) {
  const Outcome outcome = interrupted_bench({"--threads", "1"});
  expect_parts(outcome.out, {"multiply-add peak", "GFLOP/s", "of bandwidth", "kernel"});
  EXPECT_EQ(outcome.out.find('\033'), std::string::npos) << "colour in a file";
  expect_failure(run_qkv({"bench", "--seconds", "0"}), 2, {"seconds", "found 0"});
}

#ifndef QKV_WITHOUT_REFERENCE

TEST(Bench, ComparesADevicesKernelsWithItsOwnRates) {
  const Outcome outcome = interrupted_bench({"--device", "reference", "--seconds", "0.001", "--json"});
  const auto report = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(report["device"], "reference");
  EXPECT_GT(report["product_gflops"], 0.0);
  EXPECT_TRUE(report["kernels"].is_array());
  expect_failure(run_qkv({"bench", "--device", "reference", "--seconds", "0"}), 2, {"seconds", "found 0"});
}

#endif

}  // namespace
}  // namespace qkv::testing
