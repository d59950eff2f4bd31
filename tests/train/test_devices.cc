// A small model trains on each device with the same losses.

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <string>
#include <vector>

#include "qkv/io/safetensors.h"
#include "qkv/nn/parameter.h"
#include "qkv/ops/tape.h"
#include "qkv/optim/adam.h"
#include "qkv/tensor/device_memory.h"
#include "tests/support/devices.h"
#include "tests/support/scratch.h"
#include "tests/train/character_run.h"

namespace qkv::train::testing_task {
namespace {

// The loss of each step, per character.
std::vector<double> losses_on(Device device, int steps, DType operands = DType::f32) {
  const std::string text = "the quick brown fox jumps over the lazy dog while the other fox sleeps on. ";
  CharacterTask task(text + text, text, {});
  task.initialise(7);
  nn::move_to(task, device);
  optim::Adam adam(task, {}, {.clip_norm = 1});
  const auto batches = task.batches(5, {});
  std::vector<double> losses;
  for (int step = 1; step <= steps; ++step) {
    const auto batch = batches->next();
    nn::ForwardContext context{.training = true, .operands = operands};
    context.seed = 3;
    context.step = static_cast<uint32_t>(step);
    const int64_t waits = device_waits();
    Tape tape;
    const BatchLoss loss = task.loss(*batch, batch->size, context);
    tape.backward(loss.loss);
    adam.step(1e-2);
    EXPECT_EQ(device_waits() - waits, device == Device::cpu ? 0 : 1) << "for the norms of the gradients";
    const CurveShare curve = read(loss.curves).at(0);
    losses.push_back(curve.sum / curve.count);
  }
  return losses;
}

TEST(Devices, TrainASmallModel) {
  const std::vector<double> expected = losses_on(Device::cpu, 40);
  EXPECT_LT(expected.back(), 0.8 * expected.front());
  testing::for_each_device([&](Device device) {
    const std::vector<double> found = losses_on(device, 40);
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-3) << "step " << i + 1;
  });
}

// Mixed precision learns as well, with other losses. Numbers in the middle of two of bf16 may be rounded to
// either, so devices agree less than in f32.
TEST(Devices, TrainASmallModelInMixedPrecision) {
  const std::vector<double> wide = losses_on(Device::cpu, 40),
                            expected = losses_on(Device::cpu, 40, DType::bf16);
  EXPECT_NE(wide, expected);
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(expected[i], wide[i], 0.05) << "step " << i + 1;
  testing::for_each_device([&](Device device) {
    const std::vector<double> found = losses_on(device, 40, DType::bf16);
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found[i], expected[i], 0.02) << "step " << i + 1;
  });
}

struct Losses : TrainObserver {
  std::vector<double> losses;
  std::atomic<bool> stop = false;
  int64_t stop_after = 0;
  void on_step(const StepReport& report) override {
    losses.push_back(report.loss);
    if (report.step == stop_after) stop = true;
  }
};

TrainOptions run_on(Device device) {
  TrainOptions options = short_run();
  options.device = device;
  options.max_steps = 12;
  options.validate_every = 4;
  options.log_every = 1;
  return options;
}

TEST(Devices, AStepOfSeveralBatchesWaitsOnce) {
  struct Waits : TrainObserver {
    std::vector<int64_t> waits;
    void on_step(const StepReport& /*report*/) override { waits.push_back(device_waits()); }
  };
  qkv::testing::for_each_device([](Device device) {
    const qkv::testing::Scratch scratch;
    TrainOptions options = run_on(device);
    options.accumulate = 3;
    options.max_steps = 3;
    Waits seen;
    train_characters(scratch / "run", options, seen);
    ASSERT_EQ(seen.waits.size(), 3U);
    for (size_t i = 1; i < 3; ++i)
      EXPECT_EQ(seen.waits[i] - seen.waits[i - 1], device == Device::cpu ? 0 : 1) << "step " << i + 1;
  });
}

// The whole trainer: averages, checkpoints, a stop, a resumption, the exported model.
TEST(Devices, RunTheWholeTrainer) {
  const qkv::testing::Scratch scratch;
  Losses expected;
  int runs = 0;
  const TrainResult whole = train_characters(scratch / "expected", run_on(Device::cpu), expected);
  std::filesystem::path folder;
  qkv::testing::for_each_device([&](Device device) {
    folder = scratch / (name_of(device) + std::to_string(++runs));
    Losses first, rest;
    first.stop_after = 5;
    EXPECT_EQ(
        Trainer(character_task(), run_on(device), folder, IfRunExists::refuse).run(first, &first.stop).steps,
        5);
    const TrainResult result = train_characters(folder, run_on(device), rest);
    EXPECT_EQ(result.steps, 12);
    EXPECT_EQ(rest.losses.size(), 7u);
    std::vector<double> found = first.losses;
    found.insert(found.end(), rest.losses.begin(), rest.losses.end());
    ASSERT_EQ(found.size(), expected.losses.size());
    for (size_t i = 0; i < found.size(); ++i)
      EXPECT_NEAR(found[i], expected.losses[i], 1e-3) << "step " << i + 1;
    EXPECT_NEAR(result.best.at("loss"), whole.best.at("loss"), 1e-3);
    // Weights are not compared: if a gradient is only rounding error, Adam still takes a full step.
    const io::SafetensorsFile exported(folder / "model.safetensors");
    EXPECT_EQ(exported.names(), io::SafetensorsFile(scratch / "expected/model.safetensors").names());
  });
  if (!qkv::testing::kHasReference) return;
  // A checkpoint belongs to its device.
  qkv::testing::expect_throw<UsageError>(
      "train.device: expected reference as in the checkpoint, found cpu",
      [&] { Trainer(character_task(), run_on(Device::cpu), folder, IfRunExists::resume); });
}

}  // namespace
}  // namespace qkv::train::testing_task
