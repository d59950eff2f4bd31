// A small model trains on each device with the same losses.

#include <gtest/gtest.h>

#include <vector>

#include "qkv/nn/parameter.h"
#include "qkv/ops/tape.h"
#include "qkv/optim/adam.h"
#include "tests/support/devices.h"
#include "tests/train/character_task.h"

namespace qkv::train::testing_task {
namespace {

// The loss of each step, per character.
std::vector<double> losses_on(Device device, int steps) {
  const std::string text = "the quick brown fox jumps over the lazy dog while the other fox sleeps on. ";
  CharacterTask task(text + text, text, {});
  task.initialise(7);
  nn::move_to(task, device);
  optim::Adam adam(task, {}, {.clip_norm = 1});
  const auto batches = task.batches(5, {});
  std::vector<double> losses;
  for (int step = 1; step <= steps; ++step) {
    const auto batch = batches->next();
    nn::ForwardContext context{.training = true};
    context.seed = 3;
    context.step = static_cast<uint32_t>(step);
    Tape tape;
    const BatchLoss loss = task.loss(*batch, batch->size, context);
    tape.backward(loss.loss);
    adam.step(1e-2);
    losses.push_back(loss.curves.at(0).sum / loss.curves.at(0).count);
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

}  // namespace
}  // namespace qkv::train::testing_task
