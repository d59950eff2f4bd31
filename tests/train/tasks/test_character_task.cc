// A second task with the same trainer: behaviour common to all tasks.

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cmath>
#include <csignal>
#include <cstdlib>

#include "qkv/base/files.h"
#include "tests/support/events.h"
#include "tests/support/scratch.h"
#include "tests/train/character_run.h"
#include "tests/train/recorder.h"
#include "tests/train/same_run.h"

namespace qkv::train {
namespace {

using testing::expect_throw;
using testing::message_of;
using testing::Scratch;
using namespace testing_task;  // NOLINT(google-build-using-namespace)

TEST(CharacterTask, Learns) {
  const Scratch scratch;
  TrainOptions options = short_run();
  options.max_steps = 150;
  options.validate_every = 50;
  Recorder observer;
  const TrainResult result = train_characters(scratch.path(), options, observer, {.dropout = 0});
  EXPECT_GT(observer.losses.front(), 2);
  EXPECT_LT(observer.losses.back(), 0.8);
  EXPECT_EQ(result.best_by.name, "bits_per_character");
  EXPECT_EQ(result.best_step, 150);
  EXPECT_NEAR(result.best.at("bits_per_character"), result.best.at("loss") / std::log(2.0), 1e-9);
  EXPECT_EQ(observer.start.task.units, "characters");
  EXPECT_EQ(observer.start.task.train_items, 40);
  EXPECT_EQ(observer.last.curves.size(), 1u);
  EXPECT_GT(observer.last.units_per_second, 0);
  EXPECT_EQ(result.epochs, 150 * 2 / 10);
}

TEST(CharacterTask, KilledAndResumedEndsInTheSameBits) {
  for (const std::string optimizer : {"adamw", "sgd", "rmsprop", "adagrad", "adafactor"}) {
    SCOPED_TRACE(optimizer);
    const Scratch scratch;
    const TrainOptions options = short_run_with(optimizer);
    Recorder observer;
    train_characters(scratch / "whole", options, observer);
    for (const int64_t step : {3, 17, 17, 31}) {
      const std::string command =
          concat("exec '", QKV_KILLED_RUN, "' '", (scratch / "part").string(), "' ", optimizer, " ", step);
      const int status = std::system(command.c_str());
      ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "step " << step << ": " << status;
    }
    Recorder rest;
    EXPECT_EQ(train_characters(scratch / "part", options, rest).steps, 40);
    EXPECT_GT(rest.start.resumed_from, 20);
    testing::expect_same_run(scratch / "whole", scratch / "part");
    // Curves and logs too: no point twice, none missing.
    testing::expect_same_files(scratch / "whole", scratch / "part", {"log.jsonl", "curve.svg"});
    EXPECT_EQ(testing::event_points(scratch / "whole/runs"), testing::event_points(scratch / "part/runs"));
    EXPECT_GT(testing::event_points(scratch / "whole/runs").size(), 40u);
  }
}

// Trained on one text and validated on another, the model becomes better and then worse.
std::unique_ptr<CharacterTask> overfitting_task() {
  return std::make_unique<CharacterTask>(nursery_rhyme(40),
                                         "the dog sat in the bog. the cat dug on the mat. ",
                                         CharacterOptions{.length = 8, .dropout = 0});
}

TrainOptions patient_run() {
  TrainOptions options = short_run();
  options.schedule = {.kind = ScheduleKind::constant, .warmup_steps = 5, .learning_rate = 0.03f};
  options.optimizer.average_decay = 0;
  options.validate_every = 10;
  options.max_steps = 1000;
  options.patience = 3;
  return options;
}

TEST(CharacterTask, StopsWhenItsMetricNoLongerImproves) {
  const Scratch scratch;
  TrainOptions options = patient_run();
  const auto train = [&](const char* folder) {
    Recorder observer;
    return Trainer(overfitting_task(), options, scratch / folder, IfRunExists::resume).run(observer);
  };
  const TrainResult result = train("early");
  EXPECT_EQ(result.reason, StopReason::no_improvement);
  EXPECT_EQ(result.best_by.name, "bits_per_character");
  EXPECT_LT(result.steps, 1000);
  EXPECT_EQ(result.steps, result.best_step + 3 * 10);
  EXPECT_LT(result.best.at("bits_per_character"),
            result.validations.back().evaluation.metrics.at("bits_per_character"));
  // A resumed run has nothing left to do.
  const std::string model = read_file(scratch / "early/model.safetensors");
  EXPECT_EQ(train("early").steps, result.steps);
  EXPECT_EQ(read_file(scratch / "early/model.safetensors"), model);
  // The folder has the best model.
  options.max_steps = result.best_step;
  train("best");
  EXPECT_EQ(read_file(scratch / "best/model.safetensors"), model);

  options.best_by = "loss";
  options.max_steps = 1000;
  EXPECT_EQ(train("by loss").steps, result.steps) << "it ranks like the bits";
}

TEST(CharacterTask, PatienceNeedsValidationData) {
  const Scratch scratch;
  EXPECT_EQ(message_of<UsageError>([&] {
              Trainer(std::make_unique<CharacterTask>(nursery_rhyme(40), "", CharacterOptions{}),
                      patient_run(), scratch.path(), IfRunExists::refuse);
            }),
            "train.patience: expected 0 without validation data, found 3");
}

// The exported and validated weights are the moving average, here of two steps from the initial weights.
TEST(CharacterTask, ExportsTheMovingAverage) {
  const Scratch scratch;
  TrainOptions options = short_run();
  options.max_steps = 2;
  options.optimizer.average_decay = 0.9f;
  Recorder observer;
  train_characters(
      scratch / "first",
      [&] {
        TrainOptions first = options;
        first.max_steps = 1;
        return first;
      }(),
      observer);
  train_characters(scratch / "run", options, observer);
  const Checkpoint one = CheckpointFolder(scratch / "first/checkpoints").load_latest().value();
  const Checkpoint two = CheckpointFolder(scratch / "run/checkpoints").load_latest().value();
  const auto task = character_task();
  task->initialise(options.seed);
  const io::SafetensorsFile model(scratch / "run/model.safetensors");
  int compared = 0;
  for (const auto& [name, parameter] : nn::parameters_of(*task)) {
    const Shape shape = parameter.shape;
    const Tensor w0 = parameter.variable.value(), w1 = one.file.tensor("weights/" + name, shape),
                 w2 = two.file.tensor("weights/" + name, shape), found = model.tensor(name, shape);
    // The decay at step t is min(0.9, (1 + t) / (10 + t)).
    for (size_t i = 0; i < w0.values().size(); ++i) {
      const double a1 = w0.values()[i] * (2.0 / 11) + w1.values()[i] * (9.0 / 11);
      EXPECT_NEAR(found.values()[i], a1 * (3.0 / 12) + w2.values()[i] * (9.0 / 12), 1e-5) << name;
      compared += std::abs(w1.values()[i] - w2.values()[i]) > 1e-4 ? 1 : 0;
    }
  }
  EXPECT_GT(compared, 100);
}

TEST(CharacterTask, ARunBelongsToItsTaskAndItsData) {
  const Scratch scratch;
  TrainOptions options = short_run();
  options.max_steps = 3;
  Recorder observer;
  train_characters(scratch.path(), options, observer);
  expect_throw<UsageError>(
      "resume: characters.batch_examples: expected 4 as in the checkpoint, found 5",
      [&] { train_characters(scratch.path(), options, observer, {.batch_examples = 5}); });
  expect_throw<UsageError>("data.fingerprint: the data are not those of the checkpoint", [&] {
    Trainer(std::make_unique<CharacterTask>(nursery_rhyme(41), nursery_rhyme(4), CharacterOptions{}), options,
            scratch.path(), IfRunExists::resume);
  });
  options.best_by = "accuracy";
  expect_throw<UsageError>("train.best_by: expected one of loss, bits_per_character, found 'accuracy'",
                           [&] { train_characters(scratch.path(), options, observer); });
}

}  // namespace
}  // namespace qkv::train
