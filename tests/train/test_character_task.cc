// A second task through the same trainer: what holds for translation is the trainer's.

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <csignal>
#include <cstdlib>
#include <cstring>

#include "qkv/base/files.h"
#include "qkv/train/trainer.h"
#include "tests/support/scratch.h"
#include "tests/train/character_task.h"

namespace qkv::train {
namespace {

using testing::message_of;
using testing::Scratch;
using namespace testing_task;  // NOLINT(google-build-using-namespace)

std::string nursery_rhyme(int verses) {
  std::string text;
  for (int i = 0; i < verses; ++i)
    text += i % 2 == 0 ? "the cat sat on the mat. " : "the dog dug in the bog. ";
  return text;
}

TrainOptions short_run() {
  TrainOptions options;
  options.optimizer.average_decay = 0.9f;
  options.accumulate = 2;
  options.schedule = {.warmup_steps = 5, .learning_rate = 0.02f};
  options.max_steps = 40;
  options.validate_every = 8;
  options.checkpoint_every = 5;
  options.log_every = 3;
  options.seed = 7;
  return options;
}

struct Observer : TrainObserver {
  int64_t kill_after = 0;
  std::vector<double> losses;
  StartReport start;
  StepReport last;
  void on_start(const StartReport& report) override { start = report; }
  void on_step(const StepReport& report) override {
    losses.push_back(report.loss);
    last = report;
    if (report.step == kill_after) ::raise(SIGKILL);
  }
};

TrainResult train(const std::filesystem::path& folder, const TrainOptions& options, Observer& observer,
                  const CharacterOptions& characters = {}) {
  Trainer trainer(std::make_unique<CharacterTask>(nursery_rhyme(40), nursery_rhyme(4), characters), options,
                  folder, IfRunExists::resume);
  return trainer.run(observer);
}

TEST(CharacterTask, Learns) {
  const Scratch scratch;
  TrainOptions options = short_run();
  options.max_steps = 150;
  options.validate_every = 50;
  Observer observer;
  const TrainResult result = train(scratch.path(), options, observer, {.dropout = 0});
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

TrainOptions run_with(const std::string& optimizer) {
  TrainOptions options = short_run();
  EXPECT_TRUE(set_field(options, "optimizer.kind", optimizer));
  options.sgd.momentum = 0.9f;
  options.rmsprop.centered = true;
  return options;
}

// The part of a run that another test kills: a process of its own, which gets SIGKILL after a step.
TEST(CharacterTask, DISABLED_PartOfARun) {
  const char* const folder = std::getenv("QKV_TEST_FOLDER");
  ASSERT_NE(folder, nullptr) << "run by KilledAndResumedEndsInTheSameBits";
  Observer killed;
  killed.kill_after = std::stoll(std::getenv("QKV_TEST_STEP"));
  train(folder, run_with(std::getenv("QKV_TEST_OPTIMIZER")), killed);
}

TEST(CharacterTask, KilledAndResumedEndsInTheSameBits) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  for (const std::string optimizer : {"adamw", "sgd", "rmsprop", "adagrad", "adafactor"}) {
    SCOPED_TRACE(optimizer);
    const Scratch scratch;
    const TrainOptions options = run_with(optimizer);
    Observer observer;
    train(scratch / "whole", options, observer);
    for (const int64_t step : {3, 17, 17, 31}) {
      const std::string command = concat(
          "QKV_TEST_FOLDER='", (scratch / "part").string(), "' QKV_TEST_STEP=", step,
          " QKV_TEST_OPTIMIZER=", optimizer, " exec '", self,
          "' --gtest_also_run_disabled_tests --gtest_filter=CharacterTask.DISABLED_PartOfARun >/dev/null");
      const int status = std::system(command.c_str());
      ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "step " << step << ": " << status;
    }
    Observer rest;
    EXPECT_EQ(train(scratch / "part", options, rest).steps, 40);
    EXPECT_GT(rest.start.resumed_from, 20);
    EXPECT_EQ(read_file(scratch / "whole" / "model.safetensors"),
              read_file(scratch / "part" / "model.safetensors"));
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
  train(scratch.path(), options, observer);
  EXPECT_NE(message_of<UsageError>([&] {
              train(scratch.path(), options, observer, {.batch_examples = 5});
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
              train(scratch.path(), options, observer);
            }).find("train.best_by: expected one of loss, bits_per_character, found 'accuracy'"),
            std::string::npos);
}

}  // namespace
}  // namespace qkv::train
