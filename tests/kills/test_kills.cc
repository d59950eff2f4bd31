// A short version of scripts/kill_campaign.

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
  const int64_t before_validation = runs.call("write run/log.jsonl", 3);
  const int64_t validated = runs.call("write run/log.jsonl", 4);
  const int64_t checkpoint = runs.call("rename run/checkpoints/step-000000004");
  const int64_t model = runs.call("rename run/model.safetensors");
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGKILL}) {
    SCOPED_TRACE(signal);
    EXPECT_EQ(runs.check({{vocabulary, signal}, {tokenizing, signal}, {step, signal}}), "");
  }
  for (const int signal : {SIGINT, SIGKILL}) {
    SCOPED_TRACE(signal);
    EXPECT_EQ(runs.check({{before_validation, signal}}), "");
    EXPECT_EQ(runs.check({{validated, signal}}), "");
    // Resumed processes count their own calls.
    EXPECT_EQ(runs.check({{checkpoint, signal}, {checkpoint / 2, signal}}), "");
    EXPECT_EQ(runs.check({{model, signal}}), "");
  }
  EXPECT_EQ(runs.signals_sent().at(SIGTERM), 3);
  EXPECT_GE(runs.signals_sent().at(SIGKILL), 7);
}

TEST(Kills, WithAveragesOfSnapshots) {
  const Scratch scratch;
  KilledRuns runs(scratch / "average", configuration("average_last").second);
  const int64_t snapshot = runs.call("rename run/snapshots/");
  EXPECT_EQ(runs.check({{snapshot, SIGKILL}, {snapshot + 1, SIGTERM}}), "");
  EXPECT_EQ(runs.check({{runs.call("unlink run/snapshots/"), SIGKILL}}), "");
}

TEST(Kills, WithEarlyStopping) {
  const Scratch scratch;
  KilledRuns runs(scratch / "patience", configuration("early_stopping").second);
  EXPECT_EQ(runs.check({{runs.call("write run/log.jsonl", 6), SIGKILL},
                        {runs.call("write run/log.jsonl", 3), SIGINT}}),
            "");
}

}  // namespace
}  // namespace qkv::testing
