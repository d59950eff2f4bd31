// The end of a run: its last validation, and the warning of steps beyond the schedule.

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "qkv/base/files.h"
#include "qkv/base/log.h"
#include "tests/support/scratch.h"
#include "tests/train/character_run.h"
#include "tests/train/same_run.h"

namespace qkv::train {
namespace {

using testing::Scratch;
using namespace testing_task;  // NOLINT(google-build-using-namespace)

// Its validation scores are the best at the end of a run, which is no scheduled validation.
class LateTask : public CharacterTask {
 public:
  explicit LateTask(std::atomic<bool>* stop_at_end = nullptr)
      : CharacterTask(nursery_rhyme(40), nursery_rhyme(4), {}), stop_at_end_(stop_at_end) {}
  std::optional<Evaluation> evaluate(const EvaluationRequest& request) const override {
    if (!request.scheduled && stop_at_end_) {
      *stop_at_end_ = true;
      return std::nullopt;
    }
    const double loss = request.scheduled ? 2 : 1;
    return Evaluation{.loss = loss, .metrics = {{"bits_per_character", loss}}};
  }

 private:
  std::atomic<bool>* stop_at_end_;
};

TrainOptions ending_between_validations() {
  TrainOptions options = short_run();
  options.max_steps = 7;
  options.validate_every = 3;
  options.log_every = 1;
  return options;
}

TrainResult run_late(const std::filesystem::path& folder, const TrainOptions& options,
                     std::atomic<bool>* stop_at_end = nullptr) {
  TrainObserver quiet;
  return Trainer(std::make_unique<LateTask>(stop_at_end), options, folder, IfRunExists::resume)
      .run(quiet, stop_at_end);
}

TEST(RunEnd, AnEndedRunThatIsResumedKeepsItsBestModel) {
  const Scratch scratch;
  const TrainOptions options = ending_between_validations();
  EXPECT_EQ(run_late(scratch / "whole", options).best_step, 7);
  const TrainResult first = run_late(scratch / "part", options);
  ASSERT_TRUE(first.train_loss);
  EXPECT_GT(*first.train_loss, 0);
  for (int i = 0; i < 2; ++i) {
    const TrainResult again = run_late(scratch / "part", options);
    EXPECT_EQ(again.reason, StopReason::max_steps);
    EXPECT_EQ(again.best_step, 7);
    EXPECT_EQ(again.best.at("loss"), 1);
    EXPECT_FALSE(again.train_loss) << "no step was made";
    testing::expect_same_files(scratch / "part", scratch / "whole",
                               {"model.safetensors", "log.jsonl", "curve.svg"});
  }
}

TEST(RunEnd, AStopDuringTheLastValidationIsReportedAndTheResumedRunValidates) {
  const Scratch scratch;
  const TrainOptions options = ending_between_validations();
  run_late(scratch / "whole", options);
  std::atomic<bool> stop = false;
  const TrainResult stopped = run_late(scratch / "part", options, &stop);
  EXPECT_EQ(stopped.reason, StopReason::requested);
  EXPECT_EQ(stopped.steps, 7);
  EXPECT_EQ(stopped.best_step, 3);
  EXPECT_EQ(run_late(scratch / "part", options).best_step, 7);
  testing::expect_same_files(scratch / "part", scratch / "whole",
                             {"model.safetensors", "log.jsonl", "curve.svg"});
}

// The last step's scheduled validation is not repeated.
TEST(RunEnd, AScheduledValidationAtTheEndIsTheLast) {
  const Scratch scratch;
  TrainOptions options = ending_between_validations();
  options.max_steps = 6;
  EXPECT_EQ(run_late(scratch / "run", options).best_step, 3);
  const TrainResult again = run_late(scratch / "run", options);
  EXPECT_TRUE(again.validations.empty());
  EXPECT_EQ(again.best_step, 3);
}

// A checkpoint of a version that did not record the step of the last validation.
TEST(RunEnd, ACheckpointWithoutTheStepOfTheLastValidationOpens) {
  const Scratch scratch;
  TrainOptions options = ending_between_validations();
  run_late(scratch / "run", options);
  const std::filesystem::path file = CheckpointFolder(scratch / "run/checkpoints").list().front().second;
  std::string bytes = read_file(file);
  const size_t at = bytes.find("validated_step");
  ASSERT_NE(at, std::string::npos);
  bytes.replace(at, std::strlen("validated_step"), "validated_none");
  write_file_atomically(file, bytes);
  seal_checkpoint(file);
  EXPECT_EQ(run_late(scratch / "run", options).best_step, 7);
}

TEST(RunEnd, AnEpochsLastStepBelongsToIt) {
  struct Epochs : TrainObserver {
    void on_start(const StartReport& report) override { length = report.batches_in_epoch; }
    void on_step(const StepReport& report) override {
      epochs.push_back(report.epoch);
      progress.push_back(report.epoch_progress);
    }
    int64_t length = 0;
    std::vector<int64_t> epochs;
    std::vector<double> progress;
  } observer;
  const Scratch scratch;
  TrainOptions options = short_run();
  options.accumulate = 1;
  options.log_every = 1;
  options.max_steps = 0;
  options.max_epochs = 2;
  train_characters(scratch / "run", options, observer);
  ASSERT_EQ(std::ssize(observer.epochs), 2 * observer.length);
  for (int64_t i = 0; i < 2 * observer.length; ++i) {
    const auto at = static_cast<size_t>(i);
    EXPECT_EQ(observer.epochs[at], 1 + i / observer.length) << i;
    EXPECT_DOUBLE_EQ(observer.progress[at],
                     static_cast<double>(i % observer.length + 1) / static_cast<double>(observer.length));
  }
  std::istringstream log(read_file(scratch / "run/log.jsonl"));
  for (std::string text; std::getline(log, text);) {
    const auto line = nlohmann::json::parse(text);
    EXPECT_EQ(line["epoch"], 1 + (line["step"].get<int64_t>() - 1) / observer.length) << text;
  }
}

// The warnings of a run that makes or continues the one in the folder.
std::vector<std::string> warnings_of(const std::filesystem::path& folder, const TrainOptions& options) {
  std::vector<std::string> warnings;
  set_log_sink([&](LogLevel level, const std::string& message) {
    if (level == LogLevel::warning) warnings.push_back(message);
  });
  TrainObserver quiet;
  train_characters(folder, options, quiet);
  set_log_sink({});
  return warnings;
}

TEST(RunEnd, WarnsOnceOfStepsBeyondTheSchedule) {
  const Scratch scratch;
  TrainOptions options = short_run();
  options.schedule.kind = ScheduleKind::linear;
  options.schedule.total_steps = 8;
  options.max_steps = 8;
  const std::vector<std::string> none;
  EXPECT_EQ(warnings_of(scratch / "run", options), none);
  options.max_steps = 11;
  const std::vector<std::string> one{
      "step 9: the schedule has ended at step 8: the learning rate stays 0, with which the weights do not "
      "change"};
  EXPECT_EQ(warnings_of(scratch / "run", options), one);
}

TEST(RunEnd, NoWarningForOneExtraStep) {
  const Scratch scratch;
  TrainOptions options = short_run();
  options.max_steps = 0;
  options.validate_every = 0;
  options.checkpoint_every = 0;
  options.max_epochs = 1;
  TrainObserver quiet;
  const int64_t length = train_characters(scratch / "one", options, quiet).steps;
  options.max_epochs = 100 / length + 1;
  const int64_t steps = options.max_epochs * length;
  options.schedule.kind = ScheduleKind::linear;
  options.schedule.total_steps = steps - 1;
  const std::vector<std::string> none;
  EXPECT_EQ(warnings_of(scratch / "all", options), none);
  EXPECT_EQ(train_characters(scratch / "all", options, quiet).steps, steps) << "resumed after its end";
  options.schedule.total_steps = steps / 2;
  EXPECT_EQ(warnings_of(scratch / "half", options).size(), 1u);
}

}  // namespace
}  // namespace qkv::train
