// A sample of the campaign (campaign.cc): some indices of every call of three workloads.

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/faults/judge.h"
#include "tests/support/scratch.h"

namespace qkv::faults {
namespace {

// Evenly spaced calls of a kind.
std::vector<long> some_of(long calls, long wanted) {
  std::vector<long> indices;
  for (long i = 0; i < std::min(calls, wanted); ++i)
    indices.push_back((2 * i + 1) * calls / (2 * std::min(calls, wanted)));
  return indices;
}

// Fails `wanted` calls of each kind, one per run.
void expect_dealt_with(const std::string& name, long wanted) {
  const testing::Scratch scratch;
  const Programs programs{.qkv = QKV_PROGRAM, .preload = QKV_FAULTS_PRELOAD};
  const std::vector<Workload> workloads = make_workloads(programs.qkv, scratch.path());
  const auto workload = std::ranges::find(workloads, name, &Workload::name);
  ASSERT_NE(workload, workloads.end());
  std::filesystem::create_directories(scratch / "run");
  const Judge judge(programs, *workload, scratch / "run");
  long failures = 0, harmless = 0;
  for (const CallKind& kind : call_kinds()) {
    for (const long index : some_of(judge.calls(kind), wanted)) {
      const Verdict verdict = judge.run(kind, index, /*again=*/true);
      EXPECT_NE(verdict.kind, Verdict::Kind::wrong) << verdict.complaint;
      failures += verdict.kind == Verdict::Kind::failed_cleanly;
      harmless += verdict.kind == Verdict::Kind::harmless;
    }
  }
  // The preloaded library was active.
  EXPECT_GT(judge.calls(call_kind("malloc")), 1000);
  EXPECT_GT(judge.calls(call_kind("open")), 5);
  EXPECT_GT(failures, 5);
  EXPECT_GT(harmless, 0);
}

TEST(Faults, OfATinyTraining) { expect_dealt_with("train-tiny", 1); }
TEST(Faults, OfQuantizing) { expect_dealt_with("quantize", 1); }
TEST(Faults, OfTranslating) { expect_dealt_with("translate", 1); }

}  // namespace
}  // namespace qkv::faults
