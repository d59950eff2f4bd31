// Refused runs, failures of a rank, and signals to one.

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>

#include "qkv/train/ranks/division.h"
#include "tests/support/scratch.h"
#include "tests/train/ranks/rank_run.h"

namespace qkv::train {
namespace {

using testing::expect_throw;
using testing::Scratch;
using testing::ThreadRanks;
using namespace testing_task;  // NOLINT(google-build-using-namespace)

TEST(Ranks, MoreThanBatchesAreRefused) {
  const Scratch scratch;
  TrainOptions options = four_batches("adamw");
  options.accumulate = 2;
  expect_throw<UsageError>("train.accumulate: expected a batch in each step for each of 3 ranks, found 2",
                           [&] { train_on(3, scratch / "run", options); });
}

TEST(Ranks, OtherSettingsOrDataAreRefusedByName) {
  const Scratch scratch;
  const TrainOptions options = four_batches("adamw");
  const auto differing = [&](const TrainOptions& other, const CharacterOptions& characters) {
    ThreadRanks(2).run([&](Communicator& own) {
      const std::unique_ptr<Task> task = character_task(own.is_root() ? CharacterOptions{} : characters);
      Replica(*task, own.is_root() ? options : other, own).follow();
    });
  };
  TrainOptions other = options;
  other.seed = 8;
  expect_throw<UsageError>("train.seed: expected \"7\" as on rank 0, found \"8\" on rank 1",
                           [&] { differing(other, {}); });
  expect_throw<UsageError>("characters.length: expected \"24\" as on rank 0, found \"25\" on rank 1",
                           [&] { differing(options, {.length = 25}); });
}

// A task of which one rank's copy fails in its third step.
class FailingTask : public CharacterTask {
 public:
  enum class How { nan_loss, error };
  FailingTask(const Communicator& own, int rank, How how)
      : CharacterTask(nursery_rhyme(40), nursery_rhyme(4), {}), fails_(own.rank() == rank), how_(how) {}

  BatchLoss loss(const Batch& batch, const BatchSize& step, nn::ForwardContext& context) const override {
    BatchLoss result = CharacterTask::loss(batch, step, context);
    if (!fails_ || !context.training || context.step <= 8) return result;
    if (how_ == How::error) throw DataError("no such file");
    result.curves.front().sum = std::nan("");
    return result;
  }

 private:
  bool fails_;
  How how_;
};

template <class Expected>
void expect_failure(FailingTask::How how, const std::string& message) {
  const Scratch scratch;
  TrainOptions options = four_batches("adamw");
  options.max_steps = 8;
  expect_throw<Expected>(message, [&] {
    ThreadRanks(2).run([&](Communicator& own) {
      if (!own.is_root()) {
        FailingTask task(own, 1, how);
        return Replica(task, options, own).follow();
      }
      Quiet quiet;
      Trainer trainer(std::make_unique<FailingTask>(own, 1, how), options,
                      RunFolder(scratch / "run", IfRunExists::resume), own);
      trainer.run(quiet);
      trainer.end();
    });
  });
}

TEST(Ranks, AFailureNamesItsRank) {
  expect_failure<NumericError>(FailingTask::How::nan_loss, "step 3: the loss is NaN");
  expect_failure<NumericError>(FailingTask::How::nan_loss, ", on rank 1");
  expect_failure<Error>(FailingTask::How::error, "rank 1: no such file");
}

TEST(Ranks, ASignalOfOneStopsAll) {
  const Scratch scratch;
  const TrainOptions options = four_batches("adamw");
  const std::atomic<bool> signal = true;
  TrainResult result;
  ThreadRanks(2).run([&](Communicator& own) {
    if (!own.is_root()) {
      const std::unique_ptr<Task> task = character_task();
      return Replica(*task, options, own, &signal).follow();
    }
    Quiet quiet;
    Trainer trainer(character_task(), options, RunFolder(scratch / "run", IfRunExists::resume), own);
    result = trainer.run(quiet);
    trainer.end();
  });
  EXPECT_EQ(result.reason, StopReason::requested);
  EXPECT_EQ(result.steps, 1);
}

// A task of which the second rank is requested to stop in its validation.
class StoppedTask : public CharacterTask {
 public:
  explicit StoppedTask(std::atomic<bool>& stop)
      : CharacterTask(nursery_rhyme(40), nursery_rhyme(4), {}), stop_(stop) {}
  std::optional<Evaluation> evaluate(const EvaluationRequest& request) const override {
    if (request.ranks->rank() == 1) stop_ = true;
    const auto nothing = [](int64_t) { return std::string(); };
    if (!divide(*request.ranks, request.stop, 10, nothing, [](int64_t, std::string_view) {}))
      return std::nullopt;
    return CharacterTask::evaluate(request);
  }

 private:
  std::atomic<bool>& stop_;
};

TEST(Ranks, ASignalOfOneStopsTheValidationOfAll) {
  const Scratch scratch;
  const TrainOptions options = four_batches("adamw");
  std::atomic<bool> signal = false;
  TrainResult result;
  ThreadRanks(2).run([&](Communicator& own) {
    if (!own.is_root()) {
      StoppedTask task(signal);
      return Replica(task, options, own, &signal).follow();
    }
    Quiet quiet;
    Trainer trainer(std::make_unique<StoppedTask>(signal), options,
                    RunFolder(scratch / "run", IfRunExists::resume), own);
    result = trainer.run(quiet);
    trainer.end();
  });
  EXPECT_EQ(result.reason, StopReason::requested);
  EXPECT_EQ(result.steps, options.validate_every);
  EXPECT_TRUE(result.validations.empty());
}

}  // namespace
}  // namespace qkv::train
