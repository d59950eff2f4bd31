#pragma once
// Comparisons of two runs, byte for byte.

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <initializer_list>

#include "qkv/base/files.h"
#include "qkv/train/checkpoint.h"

namespace qkv::testing {

inline void expect_same_files(const std::filesystem::path& a, const std::filesystem::path& b,
                              std::initializer_list<const char*> names) {
  for (const char* name : names) EXPECT_EQ(read_file(a / name), read_file(b / name)) << name;
}

// Compares everything in the newest checkpoints that determines the rest of a run, and the exported weights.
inline void expect_same_run(const std::filesystem::path& a, const std::filesystem::path& b) {
  const auto open = [](const std::filesystem::path& run) {
    return train::CheckpointFolder(run / "checkpoints").load_latest().value();
  };
  const train::Checkpoint one = open(a), other = open(b);
  EXPECT_EQ(one.state.steps, other.state.steps);
  EXPECT_EQ(one.state.micro_steps, other.state.micro_steps);
  EXPECT_EQ(one.state.cursor, other.state.cursor);
  ASSERT_EQ(one.state.window.curves.size(), other.state.window.curves.size());
  for (size_t i = 0; i < one.state.window.curves.size(); ++i)
    EXPECT_EQ(one.state.window.curves[i].sum, other.state.window.curves[i].sum);
  EXPECT_EQ(one.state.window.gradient_norm, other.state.window.gradient_norm);
  EXPECT_EQ(one.state.best, other.state.best);
  EXPECT_EQ(one.state.best_step, other.state.best_step);
  EXPECT_EQ(one.state.validations, other.state.validations);
  EXPECT_EQ(one.state.validations_since_best, other.state.validations_since_best);
  EXPECT_EQ(one.state.snapshots, other.state.snapshots);
  ASSERT_EQ(one.file.names(), other.file.names());
  EXPECT_FALSE(one.file.names().empty());
  for (const std::string& name : one.file.names()) {
    const Tensor x = one.file.tensor(name), y = other.file.tensor(name);
    ASSERT_EQ(x.shape(), y.shape()) << name;
    EXPECT_EQ(std::memcmp(x.as_bytes().data(), y.as_bytes().data(), x.bytes()), 0) << name;
  }
  expect_same_files(a, b, {"model.safetensors"});
}

}  // namespace qkv::testing
