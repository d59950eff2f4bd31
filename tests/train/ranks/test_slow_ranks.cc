// A rank that computes more slowly than the others is found and named.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "qkv/base/log.h"
#include "qkv/ops/general/arithmetic.h"
#include "qkv/train/ranks/slow_ranks.h"
#include "tests/support/scratch.h"
#include "tests/train/ranks/rank_run.h"

namespace qkv::train {
namespace {

using testing::Scratch;
using testing::ThreadRanks;
using namespace testing_task;  // NOLINT(google-build-using-namespace)

TEST(SlowRanks, AreFoundByTheMedianOfTheTimesOfABatch) {
  const auto after_steps = [](SlowRanks& slow, const std::vector<double>& seconds) {
    for (int64_t step = 1; step < SlowRanks::kSteps; ++step) EXPECT_TRUE(slow.add(seconds).empty());
    return slow.add(seconds);
  };
  SlowRanks slow({1, 2, 1, 1});  // the second has twice the batches
  EXPECT_TRUE(after_steps(slow, {1, 2, 1, 1.4}).empty());
  std::vector<SlowRanks::Found> found = after_steps(slow, {1, 2, 1, 1.6});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].rank, 3);
  EXPECT_NEAR(found[0].seconds, 1.6, 1e-9);
  EXPECT_NEAR(found[0].median, 1, 1e-9);
  // Not named again for two comparisons, then for four; another rank is.
  EXPECT_TRUE(after_steps(slow, {1, 2, 1, 1.6}).empty());
  found = after_steps(slow, {3, 2, 1, 1.6});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].rank, 0);
  EXPECT_EQ(after_steps(slow, {1, 2, 1, 1.6}).size(), 1U);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(after_steps(slow, {1, 2, 1, 1.6}).empty());
  EXPECT_EQ(after_steps(slow, {1, 2, 1, 1.6}).size(), 1U);

  SlowRanks two({1, 1});
  EXPECT_EQ(after_steps(two, {1, 2}).size(), 1U);
  SlowRanks fast({1, 1});  // too little is lost
  EXPECT_TRUE(after_steps(fast, {0.01, 0.05}).empty());
}

// A task of which one rank's copy takes 70 ms longer.
class SlowTask : public CharacterTask {
 public:
  explicit SlowTask(bool slow) : CharacterTask(nursery_rhyme(40), nursery_rhyme(4), {}), slow_(slow) {}
  BatchLoss loss(const Batch& batch, const BatchSize& step, nn::ForwardContext& context) const override {
    if (slow_) std::this_thread::sleep_for(std::chrono::milliseconds(70));
    return CharacterTask::loss(batch, step, context);
  }

 private:
  bool slow_;
};

TEST(Ranks, ASlowOneIsNamedInAWarning) {
  const Scratch scratch;
  TrainOptions options = short_run();
  options.max_steps = SlowRanks::kSteps;
  std::string warnings;
  set_log_sink([&](LogLevel, const std::string& message) { warnings += message + "\n"; });
  ThreadRanks(2).run([&](Communicator& own) {
    if (!own.is_root()) {
      SlowTask task(true);
      return Replica(task, options, own).follow();
    }
    Quiet quiet;
    Trainer trainer(std::make_unique<SlowTask>(false), options,
                    RunFolder(scratch / "run", IfRunExists::resume), own);
    trainer.run(quiet);
    trainer.end();
  });
  set_log_sink({});
  EXPECT_NE(warnings.find("rank 1 computes a batch in 0."), std::string::npos) << warnings;
  EXPECT_NE(warnings.find("all wait for it in each step"), std::string::npos) << warnings;
  EXPECT_EQ(std::ranges::count(warnings, '\n'), 1) << warnings;
}

}  // namespace
}  // namespace qkv::train
