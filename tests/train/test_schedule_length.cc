// Schedules whose number of steps follows from another limit.

#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <thread>
#include <utility>

#include "qkv/base/files.h"
#include "tests/support/scratch.h"
#include "tests/train/character_run.h"
#include "tests/train/reverse_task.h"
#include "tests/train/same_run.h"

namespace qkv::train {
namespace {

using testing::expect_throw;
using testing::message_of;
using testing::Scratch;
using namespace testing_task;  // NOLINT(google-build-using-namespace)

struct Observer : TrainObserver {
  std::vector<ScheduleReport> schedules;
  std::vector<double> rates;
  std::vector<int64_t> steps;
  int batches = 0;
  int64_t stop_after = 0;
  std::atomic<bool> stop = false;
  void on_schedule(const ScheduleReport& report) override { schedules.push_back(report); }
  void on_batch(const Batch& /*batch*/) override { ++batches; }
  void on_step(const StepReport& report) override {
    rates.push_back(report.learning_rate);
    steps.push_back(report.step);
    if (report.step == stop_after) stop = true;
  }
};

TrainOptions timed(ScheduleKind kind) {
  TrainOptions options = short_run();
  options.schedule.kind = kind;
  options.max_steps = 0;
  options.max_minutes = 1.0 / 60;
  options.validate_every = 50;
  options.checkpoint_every = 0;
  return options;
}

// The schedule of the run in the folder: what its options left open is in its checkpoint.
ScheduleOptions stored_schedule(const std::filesystem::path& folder, const TrainOptions& options) {
  TrainOptions stored = options;
  const Checkpoint last = CheckpointFolder(folder / "checkpoints").load_latest().value();
  for (const char* name : {"schedule.total_steps", "schedule.refits", "schedule.warmup_steps"})
    set_field(stored, name, last.fields.at(name));
  return stored.schedule;
}

void expect_same_weights(const Scratch& scratch, const char* a, const char* b) {
  testing::expect_same_run(scratch / a, scratch / b);
}

class ScheduleLength : public ::testing::TestWithParam<ScheduleKind> {};

TEST_P(ScheduleLength, OfATimeLimitIsMeasuredAndRepeatedBySteps) {
  const Scratch scratch;
  TrainOptions options = timed(GetParam());
  Observer observer;
  const TrainResult result = train_characters(scratch / "timed", options, observer);
  ASSERT_EQ(observer.schedules.size(), 1u);
  const ScheduleReport& report = observer.schedules[0];
  EXPECT_GT(report.total_steps, 0);
  EXPECT_GT(report.seconds_per_step, 0);
  EXPECT_GT(report.seconds_per_validation, 0);
  EXPECT_GT(report.seconds_per_checkpoint, 0);
  EXPECT_GE(report.seconds, report.seconds_per_step);
  // A busy machine may be slower than measured.
  ASSERT_TRUE(result.reason == StopReason::schedule_end || result.reason == StopReason::max_minutes);
  EXPECT_EQ(observer.batches, 2 * result.steps) << "the measured steps are not the run's";
  options.schedule = stored_schedule(scratch / "timed", options);
  EXPECT_EQ(options.schedule.total_steps, report.total_steps);
  EXPECT_EQ(options.schedule.last_step(), result.schedule_steps);
  for (size_t i = 0; i < observer.rates.size(); ++i)
    EXPECT_EQ(observer.rates[i], learning_rate(options.schedule, observer.steps[i]));
  if (result.reason == StopReason::schedule_end) {
    EXPECT_EQ(result.steps, result.schedule_steps);
    EXPECT_NEAR(observer.rates.back(), 0, 1e-9) << "the schedule's minimum";
  }

  options.max_minutes = 0;
  options.max_steps = result.steps;
  Observer repeated;
  EXPECT_EQ(train_characters(scratch / "steps", options, repeated).reason, StopReason::max_steps);
  EXPECT_TRUE(repeated.schedules.empty());
  EXPECT_EQ(repeated.rates, observer.rates);
  expect_same_weights(scratch, "timed", "steps");
}

INSTANTIATE_TEST_SUITE_P(Kinds, ScheduleLength, ::testing::Values(ScheduleKind::cosine, ScheduleKind::linear),
                         [](const auto& kind) {
                           return std::string(kind.param == ScheduleKind::cosine ? "cosine" : "linear");
                         });

// Steps that take longer than the measured ones.
TEST(ScheduleLengths, IsFittedAgainToSlowerSteps) {
  const Scratch scratch;
  TrainOptions options = timed(ScheduleKind::linear);
  struct Slow : Observer {
    void on_step(const StepReport& report) override {
      Observer::on_step(report);
      if (report.step > 10) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  } observer;
  const TrainResult result = train_characters(scratch / "timed", options, observer);
  options.schedule = stored_schedule(scratch / "timed", options);
  EXPECT_EQ(options.schedule.refits.list.empty(),
            result.schedule_steps == observer.schedules.at(0).total_steps);
  EXPECT_LT(observer.rates.back(), 0.25 * options.schedule.learning_rate) << "has not fallen to its minimum";

  options.max_minutes = 0;
  options.max_steps = result.steps;
  Observer repeated;
  train_characters(scratch / "steps", options, repeated);
  EXPECT_EQ(repeated.rates, observer.rates);
  expect_same_weights(scratch, "timed", "steps");
}

// BLEU of 4,000 sentences by an untrained model does not fit into 0.12 s.
TEST(ScheduleLengths, CostlyMetricsAreComputedOfTheSentencesThatFit) {
  const Scratch scratch;
  TranslationJob job = testing_task::small_job(scratch, "timed");
  job.valid = testing_task::write_reversals(scratch, "many", 4000, 3);
  job.task.bleu_beam = 8;
  job.options.best_by = "bleu";
  job.options.max_steps = 1;
  job.options.max_minutes = 1.2 / 60;
  const TrainResult result = testing_task::train(job);
  ASSERT_EQ(result.validations.size(), 1u);
  const Checkpoint last = CheckpointFolder(job.folder / "checkpoints").load_latest().value();
  const std::string items = last.fields.at("train.validation_items");
  ASSERT_TRUE(items.starts_with("1:")) << items;
  EXPECT_EQ(result.validations.back().evaluation.extent,
            concat("BLEU of ", items.substr(2), " of 4000 sentences"));

  TranslationJob repeated = job;
  repeated.folder = scratch / "repeated";
  repeated.options.max_minutes = 0;
  repeated.options.max_steps = result.steps;
  ASSERT_TRUE(repeated.set_field("train.validation_items", items));
  EXPECT_EQ(testing_task::train(repeated).best, result.best);

  TranslationJob resumed = job;
  resumed.existing = IfRunExists::resume;
  EXPECT_EQ(testing_task::train(resumed).best, result.best);
}

TEST(ScheduleLengths, ValidationsTakeATenth) {
  const auto every = [](int64_t max_steps, int64_t max_epochs, double valid_share) {
    const Scratch scratch;
    TrainOptions options = short_run();
    options.max_steps = max_steps;
    options.max_epochs = max_epochs;
    options.validate_every = 0;
    options.fit_validation = true;
    Observer observer;
    observer.stop_after = 1;
    Trainer(std::make_unique<CharacterTask>(
                nursery_rhyme(40), nursery_rhyme(static_cast<int>(40 * valid_share)), CharacterOptions()),
            options, scratch.path(), IfRunExists::resume)
        .run(observer, &observer.stop);
    return observer.schedules.at(0).validate_every;
  };
  // An epoch has 5 steps. A validation of a tenth of the items is 1/30 of an epoch's forward and backward
  // passes, 1/6 of a step; one of all items 1 2/3 steps.
  EXPECT_EQ(every(0, 20, 0.1), 0) << "after each epoch";
  EXPECT_EQ(every(0, 20, 1), 17) << "six of 100 steps";
  EXPECT_EQ(every(10, 0, 0.1), 2) << "six fit into two epochs";
  EXPECT_EQ(every(10, 0, 1), 10) << "the last one alone";
}

// Neither the weights nor the optimizer's state nor the random numbers keep a trace of the measurement.
TEST(ScheduleLengths, MeasuringLeavesNoTraceForAnyOptimizer) {
  for (const std::string optimizer : {"adamw", "sgd", "rmsprop", "adagrad", "adafactor"}) {
    SCOPED_TRACE(optimizer);
    const Scratch scratch;
    TrainOptions options = short_run_with(optimizer);
    options.schedule.kind = ScheduleKind::linear;
    options.max_steps = 0;
    options.max_minutes = 1;  // far more steps
    Observer observer;
    observer.stop_after = 6;
    Trainer(character_task(), options, scratch / "timed", IfRunExists::resume).run(observer, &observer.stop);
    ASSERT_EQ(observer.schedules.size(), 1u);
    options.schedule = stored_schedule(scratch / "timed", options);
    options.max_minutes = 0;
    options.max_steps = 1000;
    Observer repeated;
    repeated.stop_after = 6;
    Trainer(character_task(), options, scratch / "steps", IfRunExists::resume).run(repeated, &repeated.stop);
    expect_same_weights(scratch, "timed", "steps");
  }
}

TEST(ScheduleLengths, AResumedRunKeepsItsLength) {
  const Scratch scratch;
  const TrainOptions options = timed(ScheduleKind::linear);
  Observer first;
  first.stop_after = 3;
  EXPECT_EQ(
      Trainer(character_task(), options, scratch.path(), IfRunExists::resume).run(first, &first.stop).reason,
      StopReason::requested);
  ASSERT_EQ(first.schedules.size(), 1u);
  const std::string steps = std::to_string(first.schedules[0].total_steps);
  EXPECT_EQ(CheckpointFolder(scratch / "checkpoints").load_latest().value().fields.at("schedule.total_steps"),
            steps);
  Observer rest;
  const TrainResult result = train_characters(scratch.path(), options, rest);
  EXPECT_TRUE(rest.schedules.empty());
  EXPECT_EQ(stored_schedule(scratch.path(), options).last_step(), result.schedule_steps);
  EXPECT_EQ(stored_schedule(scratch.path(), options).total_steps, first.schedules[0].total_steps);
  // Another number contradicts the checkpoint.
  TrainOptions other = options;
  other.max_minutes = 0;
  other.max_steps = first.schedules[0].total_steps + 5;
  expect_throw<UsageError>("resume: schedule.total_steps: expected " + steps + " as in the checkpoint",
                           [&] { train_characters(scratch.path(), other, rest); });
}

// With four times the time, the rest has more steps, from the learning rate reached. The fit comes after a
// twentieth of it, a fifth of the planned run: steps may turn out to be five times as fast as planned.
TEST(ScheduleLengths, AResumedRunWithMoreTimeIsLonger) {
  const Scratch scratch;
  TrainOptions options = timed(ScheduleKind::linear);
  struct Stopper : Observer {
    double seconds = 0;  // of the run, at which it stops
    void on_step(const StepReport& report) override {
      Observer::on_step(report);
      if (report.seconds > seconds) stop = true;
    }
  } first, rest;
  first.stop_after = 6;
  first.seconds = 60;
  Trainer(character_task(), options, scratch.path(), IfRunExists::resume).run(first, &first.stop);
  const ScheduleOptions before = stored_schedule(scratch.path(), options);
  options.max_minutes *= 4;
  rest.seconds = 1.5;  // of 4
  Trainer(character_task(), options, scratch.path(), IfRunExists::resume).run(rest, &rest.stop);
  const ScheduleOptions after = stored_schedule(scratch.path(), options);
  EXPECT_EQ(after.total_steps, before.total_steps);
  EXPECT_GT(after.last_step(), before.last_step());
  ASSERT_FALSE(rest.rates.empty());
  EXPECT_EQ(rest.rates.front(), learning_rate(before, 7));
}

// Before the first checkpoint, run.json has the number.
TEST(ScheduleLengths, ARunKilledBeforeItsFirstCheckpointKeepsItsLength) {
  const Scratch scratch;
  TranslationJob job = small_job(scratch, "out");
  job.options.schedule.kind = ScheduleKind::cosine;
  job.options.max_steps = 0;
  job.options.max_minutes = 1;
  job.existing = IfRunExists::resume;
  struct Killer : TrainObserver {
    int64_t total = 0;
    void on_schedule(const ScheduleReport& report) override { total = report.total_steps; }
    void on_step(const StepReport& /*report*/) override { throw std::runtime_error("killed"); }
  } killer;
  EXPECT_THROW(run_job(job, killer), std::runtime_error);
  ASSERT_GT(killer.total, 0);
  const int64_t total = std::exchange(killer.total, 0);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(RunFolder(job.folder, IfRunExists::resume).settings().value().at("schedule.total_steps"),
              std::to_string(total));
    EXPECT_THROW(run_job(job, killer), std::runtime_error);
    EXPECT_EQ(killer.total, 0) << "measured again";
  }
}

TEST(ScheduleLengths, OfEpochsIsThatOfTheFirst) {
  const Scratch scratch;
  TrainOptions options = timed(ScheduleKind::linear);
  options.max_minutes = 0;
  options.max_epochs = 3;  // of 10 batches, two per step
  Observer observer;
  const TrainResult result = train_characters(scratch / "epochs", options, observer);
  EXPECT_EQ(result.reason, StopReason::max_epochs);
  EXPECT_EQ(result.steps, 15);
  EXPECT_EQ(result.schedule_steps, 15);
  ASSERT_EQ(observer.schedules.size(), 1u);
  EXPECT_EQ(observer.schedules[0].seconds_per_step, 0) << "nothing is measured";
  // With both limits the smaller number counts.
  options.max_minutes = 1;
  Observer both;
  EXPECT_EQ(train_characters(scratch / "both", options, both).schedule_steps, 15);
  expect_same_weights(scratch, "epochs", "both");
}

// A warm-up that is a default fits into the run, whose length is known when it starts.
TEST(ScheduleLengths, AShortenedWarmUpIsATenthOfIt) {
  const Scratch scratch;
  TrainOptions options = timed(ScheduleKind::linear);
  options.max_minutes = 0;
  options.max_epochs = 4;  // of 5 steps
  options.schedule.warmup_steps = 100;
  Observer whole, first, rest;
  EXPECT_EQ(
      message_of<UsageError>([&] { train_characters(scratch / "refused", options, whole); }),
      "schedule.warmup_steps: expected fewer than the run's 20 steps, found 100; give fewer warm-up steps "
      "or more epochs");
  options.schedule.fit_warmup = true;
  EXPECT_EQ(train_characters(scratch / "whole", options, whole).steps, 20);
  const ScheduleOptions same = stored_schedule(scratch / "whole", options);
  EXPECT_EQ(same.warmup_steps, 2);
  EXPECT_EQ(same.total_steps, 20);
  for (size_t i = 0; i < whole.rates.size(); ++i)
    EXPECT_EQ(whole.rates[i], learning_rate(same, whole.steps[i]));
  // Interrupted within the warm-up.
  first.stop_after = 1;
  Trainer(character_task(), options, scratch / "part", IfRunExists::resume).run(first, &first.stop);
  train_characters(scratch / "part", options, rest);
  EXPECT_EQ(rest.rates, std::vector<double>(whole.rates.begin() + 1, whole.rates.end()));
  expect_same_weights(scratch, "whole", "part");
}

// A task whose first epoch begins with three batches of a warm-up. Records the positions of its streams.
struct WarmingTask : CharacterTask {
  using CharacterTask::CharacterTask;

  struct Warming : BatchStream {
    explicit Warming(std::unique_ptr<BatchStream> stream) : own(std::move(stream)) {}
    std::unique_ptr<Batch> next() override { return own->next(); }
    data::CursorState state() const override { return own->state(); }
    int64_t batches_in_epoch() const override { return own->batches_in_epoch(); }
    int64_t warmup_batches() const override { return 3; }
    std::unique_ptr<BatchStream> own;
  };
  std::unique_ptr<BatchStream> batches(uint64_t seed, data::CursorState from) const override {
    positions->push_back(from);
    return std::make_unique<Warming>(CharacterTask::batches(seed, from));
  }
  std::shared_ptr<std::vector<data::CursorState>> positions =
      std::make_shared<std::vector<data::CursorState>>();
};

TEST(ScheduleLengths, TheTimeOfAStepIsThatAfterAWarmUp) {
  const Scratch scratch;
  auto task = std::make_unique<WarmingTask>(nursery_rhyme(40), nursery_rhyme(4), CharacterOptions());
  const auto positions = task->positions;
  Observer observer;
  Trainer(std::move(task), timed(ScheduleKind::linear), scratch / "run", IfRunExists::resume).run(observer);
  ASSERT_EQ(observer.schedules.size(), 1u);
  EXPECT_EQ(*positions, (std::vector<data::CursorState>{{0, 0}, {0, 3}, {0, 0}}));
}

TEST(ScheduleLengths, TooShortATimeIsNamed) {
  const Scratch scratch;
  TrainOptions options = timed(ScheduleKind::cosine);
  options.schedule.warmup_steps = 100'000'000;
  Observer observer;
  const std::string found =
      message_of<UsageError>([&] { train_characters(scratch.path(), options, observer); });
  EXPECT_TRUE(found.starts_with("schedule.warmup_steps: expected fewer than the run's ")) << found;
  EXPECT_TRUE(found.ends_with("steps, found 100000000; give fewer warm-up steps or more minutes")) << found;
}

TEST(ScheduleLengths, ATimeThatEndsBeforeTheScheduleEndsTheRun) {
  const Scratch scratch;
  TrainOptions options = timed(ScheduleKind::linear);
  options.schedule.total_steps = 1'000'000'000;
  options.max_minutes = 0.2 / 60;
  Observer observer;
  const TrainResult result = train_characters(scratch.path(), options, observer);
  EXPECT_TRUE(observer.schedules.empty());
  EXPECT_EQ(result.reason, StopReason::max_minutes);
  EXPECT_LT(result.steps, result.schedule_steps);
}

}  // namespace
}  // namespace qkv::train
