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

}  // namespace
}  // namespace qkv::testing
