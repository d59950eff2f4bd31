// A second task with the same trainer: behaviour common to all tasks.

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "qkv/base/files.h"
#include "tests/support/events.h"
#include "tests/support/scratch.h"
#include "tests/train/character_run.h"

namespace qkv::train {
namespace {

using testing::message_of;
using testing::Scratch;
using namespace testing_task;  // NOLINT(google-build-using-namespace)

struct Observer : TrainObserver {
  std::vector<double> losses;
  StartReport start;
  StepReport last;
  void on_start(const StartReport& report) override { start = report; }
  void on_step(const StepReport& report) override {
    losses.push_back(report.loss);
    last = report;
  }
};

TEST(CharacterTask, Learns) {
  const Scratch scratch;
  TrainOptions options = short_run();
  options.max_steps = 150;
  options.validate_every = 50;
  Observer observer;
  const TrainResult result = train_characters(scratch.path(), options, observer, {.dropout = 0});
  EXPECT_GT(observer.losses.front(), 2);
  EXPECT_LT(observer.losses.back(), 0.8);
  EXPECT_EQ(result.best_by, "bits_per_character");
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
    Observer observer;
    train_characters(scratch / "whole", options, observer);
    for (const int64_t step : {3, 17, 17, 31}) {
      const std::string command =
          concat("exec '", QKV_KILLED_RUN, "' '", (scratch / "part").string(), "' ", optimizer, " ", step);
      const int status = std::system(command.c_str());
      ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "step " << step << ": " << status;
    }
    Observer rest;
    EXPECT_EQ(train_characters(scratch / "part", options, rest).steps, 40);
    EXPECT_GT(rest.start.resumed_from, 20);
    EXPECT_EQ(read_file(scratch / "whole" / "model.safetensors"),
              read_file(scratch / "part" / "model.safetensors"));
    // Curves and logs too: no point twice, none missing.
    for (const char* name : {"log.jsonl", "curve.svg"})
      EXPECT_EQ(read_file(scratch / "whole" / name), read_file(scratch / "part" / name)) << name;
    EXPECT_EQ(testing::event_points(scratch / "whole/runs"), testing::event_points(scratch / "part/runs"));
    EXPECT_GT(testing::event_points(scratch / "whole/runs").size(), 40u);
    const Checkpoint whole = CheckpointFolder(scratch / "whole/checkpoints").load_latest().value();
    const Checkpoint part = CheckpointFolder(scratch / "part/checkpoints").load_latest().value();
    EXPECT_EQ(whole.state.best, part.state.best);
    ASSERT_EQ(whole.file.names(), part.file.names());
    for (const std::string& name : whole.file.names()) {
      const Tensor x = whole.file.tensor(name), y = part.file.tensor(name);
      EXPECT_EQ(std::memcmp(x.address(), y.address(), x.bytes()), 0) << name;
    }
  }
}

TEST(CharacterTask, ARunBelongsToItsTaskAndItsData) {
  const Scratch scratch;
  TrainOptions options = short_run();
  options.max_steps = 3;
  Observer observer;
  train_characters(scratch.path(), options, observer);
  EXPECT_NE(message_of<UsageError>([&] {
              train_characters(scratch.path(), options, observer, {.batch_examples = 5});
            }).find("resume: characters.batch_examples: expected 4 as in the checkpoint, found 5"),
            std::string::npos);
  EXPECT_NE(message_of<UsageError>([&] {
              Trainer(
                  std::make_unique<CharacterTask>(nursery_rhyme(41), nursery_rhyme(4), CharacterOptions{}),
                  options, scratch.path(), IfRunExists::resume);
            }).find("data.fingerprint: the data are not those of the checkpoint"),
            std::string::npos);
  options.best_by = "accuracy";
  EXPECT_NE(message_of<UsageError>([&] {
              train_characters(scratch.path(), options, observer);
            }).find("train.best_by: expected one of loss, bits_per_character, found 'accuracy'"),
            std::string::npos);
}

}  // namespace
}  // namespace qkv::train
