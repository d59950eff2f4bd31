// A part of the campaign (campaign.cc): some indices of every call. QKV_FAULTS=N: N indices of each, up to
// all.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

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

void expect_dealt_with(const std::string& name) {
  const testing::Scratch scratch;
  const Programs programs{.qkv = QKV_PROGRAM, .preload = QKV_FAULTS_PRELOAD};
  const std::vector<Workload> workloads = make_workloads(programs.qkv, scratch.path());
  const auto workload = std::ranges::find(workloads, name, &Workload::name);
  ASSERT_NE(workload, workloads.end());
  std::filesystem::create_directories(scratch / "run");
  const Judge judge(programs, *workload, scratch / "run");
  const char* const more = std::getenv("QKV_FAULTS");
  const long wanted = more ? std::atol(more) : 0;
  long failures = 0, harmless = 0;
  for (const CallKind& kind : call_kinds()) {
    for (const long index : some_of(judge.calls(kind), wanted > 0 ? wanted : kind.allocation ? 6 : 3)) {
      const Verdict verdict = judge.run(kind, index, /*again=*/true);
      EXPECT_NE(verdict.kind, Verdict::Kind::wrong) << verdict.complaint;
      failures += verdict.kind == Verdict::Kind::failed_cleanly;
      harmless += verdict.kind == Verdict::Kind::harmless;
    }
  }
  // The preloaded library was active.
  EXPECT_GT(judge.calls(call_kind("malloc")), 1000);
  EXPECT_GT(judge.calls(call_kind("open")), 5);
  EXPECT_GT(failures, 10);
  EXPECT_GT(harmless, 0);
}

TEST(Faults, OfTraining) { expect_dealt_with("train"); }
TEST(Faults, OfATinyTraining) { expect_dealt_with("train-tiny"); }
TEST(Faults, OfTrainingWithItsVocabulary) { expect_dealt_with("train-vocabulary"); }
TEST(Faults, OfQuantizing) { expect_dealt_with("quantize"); }
TEST(Faults, OfAReport) { expect_dealt_with("report"); }
TEST(Faults, OfTranslating) { expect_dealt_with("translate"); }

}  // namespace
}  // namespace qkv::faults
