#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <fstream>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/base/log.h"
#include "qkv/train/checkpoint.h"
#include "tests/support/scratch.h"

namespace qkv::train {
namespace {

using testing::expect_contains;
using testing::message_of;
using testing::Scratch;

const Fields kFields{{"train.batch_tokens", "4096"}, {"schedule.kind", "paper"}};

std::vector<io::NamedTensor> tensors(float first) {
  return {{"weights/a", Tensor::from(std::vector<float>{first, 2.5f, -3}, {3})},
          {"adam.first/a", Tensor::from(std::vector<float>{0.1f, 0.2f, first}, {3})}};
}

TrainState state_at(int64_t steps) {
  TrainState state;
  state.steps = steps;
  state.micro_steps = 3 * steps;
  state.cursor = {.epoch = 2, .batch = 5};
  state.seconds = 0.1;
  state.window = {.steps = 1,
                  .units = 2,
                  .gradient_norm = 1e-300,
                  .seconds = 4.5,
                  .curves = {{"loss", 1.0 / 3, 3}, {"nll", 0.7, 3}}};
  state.validation_due = true;
  state.validations = 6;
  state.validated_step = 5;
  state.best = {{"loss", 1.0 / 7}, {"bleu", 0.3}};
  state.best_step = 4;
  state.validations_since_best = 2;
  state.snapshots = {3, 9};
  state.logs = {{"log.jsonl", 120}, {"runs/events", 5000000000}};
  return state;
}

std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename());
  std::ranges::sort(names);
  return names;
}

// A size of /proc/self/status in bytes: "VmRSS:" is the resident set, "VmHWM:" the largest since
// reset_peak().
int64_t status_bytes(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word != key) continue;
    int64_t kilobytes = 0;
    status >> kilobytes;
    return kilobytes * 1024;
  }
  return 0;
}

bool reset_peak() {
  std::ofstream file("/proc/self/clear_refs");
  return static_cast<bool>(file << "5" << std::flush);
}

TEST(Checkpoint, ComesBackAsItWas) {
  const Scratch scratch;
  const CheckpointFolder folder(scratch / "checkpoints");
  EXPECT_TRUE(folder.empty());
  EXPECT_FALSE(folder.load_latest().has_value());
  folder.save(state_at(7), kFields, tensors(1), 2);
  const std::optional<Checkpoint> found = folder.load_latest();
  ASSERT_TRUE(found);
  const TrainState expected = state_at(7);
  EXPECT_EQ(found->fields, kFields);
  EXPECT_EQ(found->state.steps, 7);
  EXPECT_EQ(found->state.micro_steps, 21);
  EXPECT_EQ(found->state.cursor, expected.cursor);
  EXPECT_EQ(found->state.seconds, 0.1);
  ASSERT_EQ(found->state.window.curves.size(), 2u);
  EXPECT_EQ(found->state.window.curves[0].name, "loss");
  EXPECT_EQ(found->state.window.curves[0].sum, 1.0 / 3);
  EXPECT_EQ(found->state.window.curves[1].count, 3);
  EXPECT_EQ(found->state.window.gradient_norm, 1e-300);
  EXPECT_EQ(found->state.window.units, 2);
  EXPECT_TRUE(found->state.validation_due);
  EXPECT_EQ(found->state.validations, 6);
  EXPECT_EQ(found->state.validated_step, 5);
  EXPECT_EQ(found->state.best, expected.best);
  EXPECT_EQ(found->state.best_step, 4);
  EXPECT_EQ(found->state.validations_since_best, 2);
  EXPECT_EQ(found->state.snapshots, expected.snapshots);
  EXPECT_EQ(found->state.logs, expected.logs);
  EXPECT_EQ(found->file.tensor("weights/a").data()[2], -3);
}

TEST(Checkpoint, KeepsTheNewestAndForgetsWhatItWentBackBehind) {
  const Scratch scratch;
  const CheckpointFolder folder(scratch / "c");
  for (const int64_t step : {5, 100, 20}) folder.save(state_at(step), kFields, tensors(1), 2);
  EXPECT_EQ(names_in(scratch / "c"),
            (std::vector<std::string>{"step-000000005.safetensors", "step-000000020.safetensors"}));
  folder.save(state_at(30), kFields, tensors(1), 2);
  EXPECT_EQ(names_in(scratch / "c"),
            (std::vector<std::string>{"step-000000020.safetensors", "step-000000030.safetensors"}));
  EXPECT_EQ(folder.load_latest()->state.steps, 30);
}

TEST(Checkpoint, RemovingOldOnesLeavesLaterOnes) {
  const Scratch scratch;
  const CheckpointFolder folder(scratch / "c");
  for (const int64_t step : {5, 20, 30, 40}) folder.save(state_at(step), kFields, tensors(1), 4);
  folder.remove_old(30, 2);
  EXPECT_EQ(names_in(scratch / "c"),
            (std::vector<std::string>{"step-000000020.safetensors", "step-000000030.safetensors",
                                      "step-000000040.safetensors"}));
  folder.remove_old(4, 1);
  EXPECT_EQ(names_in(scratch / "c").size(), 3U);
}

TEST(Checkpoint, DamagedOnesArePassedOver) {
  const Scratch scratch;
  const CheckpointFolder folder(scratch / "c");
  folder.save(state_at(1), kFields, tensors(1), 3);
  folder.save(state_at(2), kFields, tensors(2), 3);
  folder.save(state_at(3), kFields, tensors(3), 3);
  const auto file = [&](int step) { return scratch / concat("c/step-00000000", step, ".safetensors"); };
  std::filesystem::resize_file(file(3), std::filesystem::file_size(file(3)) - 1);
  EXPECT_EQ(folder.load_latest()->state.steps, 2);
  // A flipped bit in the data, which only the checksum detects.
  std::string bytes = read_file(file(2));
  bytes[bytes.size() - 3] = static_cast<char>(bytes[bytes.size() - 3] ^ 1);
  write_file_atomically(file(2), bytes);
  EXPECT_EQ(folder.load_latest()->state.steps, 1);
  io::write_safetensors(file(1), tensors(1));  // valid, but not a checkpoint
  const std::string message = message_of<DataError>([&] { folder.load_latest(); });
  for (const char* part : {"step-000000003", "checksum", "expected a training checkpoint"})
    EXPECT_NE(message.find(part), std::string::npos) << message;
}

TEST(Checkpoint, AStateOfAnotherShapeIsNamed) {
  const Scratch scratch;
  const auto file = scratch / "step-000000001.safetensors";
  const CheckpointFolder folder(scratch.path());
  const auto message = [&](const std::string& state) {
    io::write_safetensors(file, tensors(1), {{"qkv_training", state}, {"qkv_checksum", "1"}});
    return message_of<DataError>([&] { folder.load_latest(); });
  };
  expect_contains(message(std::string(100'000, '[')), "training state: expected JSON nested at most 64");
  expect_contains(message("{\"format\": \"2\"}"), "training state: format: expected an integer");
  EXPECT_NE(message("{").find("training state: expected JSON, found the end of the text"), std::string::npos);
  EXPECT_EQ(folder.snapshots(), std::set<int64_t>{});
}

// One checksum over the whole file: with any flipped bit the older one is taken, and one warning says why.
TEST(Checkpoint, AFlippedBitAnywhereIsFound) {
  const Scratch scratch;
  const CheckpointFolder folder(scratch / "c");
  folder.save(state_at(1), kFields, tensors(1), 2);
  folder.save(state_at(2), kFields, tensors(2), 2);
  const auto newest = scratch / "c/step-000000002.safetensors";
  const std::string whole = read_file(newest);
  ASSERT_LT(whole.size(), 5000u);
  int warnings = 0;
  set_log_sink([&](LogLevel, const std::string& message) {
    EXPECT_NE(message.find("step-000000002"), std::string::npos);
    ++warnings;
  });
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string bytes = whole;
    bytes[i] = static_cast<char>(bytes[i] ^ (1 << i % 8));
    scratch.write("c/step-000000002.safetensors", bytes);
    const std::optional<Checkpoint> found = folder.load_latest();
    ASSERT_TRUE(found) << i;
    ASSERT_EQ(found->state.steps, 1) << i;
  }
  set_log_sink({});
  EXPECT_EQ(warnings, static_cast<int>(whole.size()));
  write_file_atomically(newest, whole);
  EXPECT_EQ(folder.load_latest()->state.steps, 2);
}

TEST(Checkpoint, KnowsTheSnapshotsThatAnyOfThemNeeds) {
  const Scratch scratch;
  const CheckpointFolder folder(scratch / "c");
  TrainState state = state_at(10);
  folder.save(state, kFields, tensors(1), 2);
  state = state_at(12);
  state.snapshots = {9, 12};
  folder.save(state, kFields, tensors(1), 2);
  EXPECT_EQ(folder.snapshots(), (std::set<int64_t>{3, 9, 12}));
}

TEST(Checkpoint, WhatAKilledRunLeftIsNotTakenForOne) {
  const Scratch scratch;
  const CheckpointFolder folder(scratch / "c");
  folder.save(state_at(4), kFields, tensors(1), 2);
  scratch.write("c/step-000000005.safetensors.partial-1234-0", "half");
  scratch.write("c/step-x.safetensors", "?");
  EXPECT_EQ(folder.load_latest()->state.steps, 4);
  remove_partial_files(scratch / "c");
  EXPECT_EQ(names_in(scratch / "c"),
            (std::vector<std::string>{"step-000000004.safetensors", "step-x.safetensors"}));
}

TEST(Checkpoint, AFullDiskLeavesThePreviousOne) {
  const Scratch scratch;
  const CheckpointFolder folder(scratch / "c");
  folder.save(state_at(1), kFields, tensors(1), 1);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{.rlim_cur = 100, .rlim_max = before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  std::string message;
  try {
    folder.save(state_at(2), kFields, tensors(2), 1);
  } catch (const IoError& error) {
    message = error.what();
  }
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_NE(message.find("step-000000002"), std::string::npos) << message;
  EXPECT_EQ(folder.load_latest()->state.steps, 1);
  EXPECT_EQ(names_in(scratch / "c").size(), 1u);
}

// The checksum reads the whole file, of 64 MiB here.
TEST(Checkpoint, SavingAndOpeningNeedLittleMemory) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "needs a build without sanitizers";
#endif
  constexpr int64_t kMost = int64_t{24} << 20;
  const Scratch scratch;
  const CheckpointFolder folder(scratch / "c");
  const std::vector<io::NamedTensor> large{{"weights/a", Tensor::full({int64_t{16} << 20}, 1.5f)}};
  folder.save(state_at(1), kFields, tensors(1), 2);
  if (!reset_peak()) GTEST_SKIP() << "needs /proc/self/clear_refs";
  const int64_t before = status_bytes("VmRSS:");
  ASSERT_GT(before, int64_t{64} << 20);  // the tensor
  folder.save(state_at(2), kFields, large, 2);
  EXPECT_LT(status_bytes("VmHWM:") - before, kMost);
  const auto checkpoint = folder.load_latest();
  ASSERT_TRUE(checkpoint.has_value());
  EXPECT_EQ(checkpoint->state.steps, 2);
  EXPECT_LT(status_bytes("VmHWM:") - before, kMost);
}

}  // namespace
}  // namespace qkv::train
