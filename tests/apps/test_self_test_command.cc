#include <nlohmann/json.hpp>

#include "qkv/kernels/instruction_set.h"
#include "tests/apps/run.h"

namespace qkv::testing {
namespace {

TEST(SelfTestCommand, PassesAndDescribesTheMachine) {
  const Outcome outcome = run_qkv({"self-test"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  for (const char* part :
       {"instruction sets", "cgroup quota", "oneDNN 2.", "ok      attention, recorded values",
        "ok      same bits for any number of threads"})
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << " in\n" << outcome.out;
  EXPECT_EQ(outcome.out.find("FAILED"), std::string::npos) << outcome.out;
}

TEST(SelfTestCommand, PassesWithEveryInstructionSet) {
  for (const kernels::InstructionSet set : kernels::instruction_sets()) {
    const Outcome outcome =
        run_qkv({"self-test", "--json"}, {.environment = concat("QKV_ISA=", name_of(set))});
    EXPECT_EQ(outcome.status, 0) << name_of(set) << ": " << outcome.err;
    const auto report = nlohmann::json::parse(outcome.out);
    EXPECT_EQ(report["instruction_set"], name_of(set));
    EXPECT_EQ(report["passed"], true);
    EXPECT_EQ(report["checks"].size(), 14) << report["checks"];
    EXPECT_GE(report["threads"], 1);
    EXPECT_TRUE(report.contains("cgroup_processors"));
  }
}

TEST(SelfTestCommand, ChecksADevice) {
#ifdef QKV_WITHOUT_REFERENCE
  GTEST_SKIP() << "needs the reference backend";
#endif
  const Outcome outcome = run_qkv({"self-test", "--device", "reference", "--json"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const auto report = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(report["device"], "reference");
  EXPECT_EQ(report["passed"], true);
  EXPECT_EQ(report["checks"].size(), 13) << report["checks"];
  const Outcome without =
      run_qkv({"self-test", "--device", "cuda"}, {.environment = "QKV_CUDA_LIBRARY=/nowhere/libqkv_cuda.so"});
  EXPECT_EQ(without.status, 2);
  EXPECT_EQ(without.out, "");
  EXPECT_NE(without.err.find("device cuda: expected qkv's library"), std::string::npos) << without.err;
}

}  // namespace
}  // namespace qkv::testing
