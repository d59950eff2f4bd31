// A sample of scripts/kill_campaign, which has further configurations.

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/kills/configurations.h"
#include "tests/kills/killed_runs.h"
#include "tests/support/scratch.h"

namespace qkv::testing {
namespace {

const Configuration& configuration(const std::string& name) {
  static const std::vector<Configuration> all = kill_configurations();
  return *std::ranges::find(all, name, &Configuration::first);
}

// Each stage, by the call on files at its start or end.
TEST(Kills, AtEveryStageEndInTheSameFiles) {
  const Scratch scratch;
  KilledRuns runs(scratch / "ema", configuration("ema").second);
  const int64_t vocabulary = runs.call("open train.en", 3),
                tokenizing = runs.call("open run/cache/train.tokens");
  const int64_t step = runs.call("write run/log.jsonl", 1);
  const int64_t validated = runs.call("write run/log.jsonl", 4);
  const int64_t checkpoint = runs.call("rename run/checkpoints/step-000000004");
  const int64_t model = runs.call("rename run/model.safetensors");
  EXPECT_EQ(runs.check({{vocabulary, SIGINT}, {tokenizing, SIGTERM}, {step, SIGHUP}}), "");
  EXPECT_EQ(runs.check({{vocabulary, SIGKILL}, {tokenizing, SIGKILL}, {step, SIGKILL}}), "");
  EXPECT_EQ(runs.check({{validated, SIGTERM}}), "");
  // Resumed processes count their own calls.
  EXPECT_EQ(runs.check({{checkpoint, SIGKILL}, {checkpoint / 2, SIGINT}}), "");
  EXPECT_EQ(runs.check({{model, SIGKILL}}), "");
  EXPECT_EQ(runs.signals_sent().at(SIGTERM), 2);
  EXPECT_GE(runs.signals_sent().at(SIGKILL), 5);
}

TEST(Kills, WithAveragesOfSnapshots) {
  const Scratch scratch;
  KilledRuns runs(scratch / "average", configuration("average_last").second);
  const int64_t snapshot = runs.call("rename run/snapshots/");
  EXPECT_EQ(runs.check({{snapshot, SIGKILL}, {snapshot + 1, SIGTERM}}), "");
  EXPECT_EQ(runs.check({{runs.call("unlink run/snapshots/"), SIGKILL}}), "");
}

}  // namespace
}  // namespace qkv::testing
