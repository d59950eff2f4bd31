// Any number of ranks ends in the files of one process.

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "qkv/base/parallel.h"
#include "qkv/ops/general/arithmetic.h"
#include "qkv/train/ranks/gradient_sum.h"
#include "tests/support/devices.h"
#include "tests/support/scratch.h"
#include "tests/train/ranks/rank_run.h"
#include "tests/train/reverse_task.h"

namespace qkv::train {
namespace {

using testing::expect_same_run;
using testing::expect_throw;
using testing::Scratch;
using testing::ThreadRanks;
using namespace testing_task;  // NOLINT(google-build-using-namespace)

TEST(Ranks, AnyNumberEndsInTheSameFileAsOneProcess) {
  for (const char* optimizer : {"adamw", "adafactor"}) {
    const Scratch scratch;
    const TrainOptions options = four_batches(optimizer);
    Quiet quiet;
    train_characters(scratch / "whole", options, quiet);
    for (int ranks = 1; ranks <= 4; ++ranks) {
      SCOPED_TRACE(concat(optimizer, ", ranks: ", ranks));
      set_threads(1 + ranks % 2);
      const std::string folder = concat("ranks-", ranks);
      train_on(ranks, scratch / folder, options);
      expect_same_run(scratch / "whole", scratch / folder);
      testing::expect_same_files(scratch / "whole", scratch / folder, {"log.jsonl"});
    }
  }
}

TEST(Ranks, ACheckpointIsResumedOnAnyNumberOfRanks) {
  const Scratch scratch;
  TrainOptions options = four_batches("adamw");
  Quiet quiet;
  train_characters(scratch / "whole", options, quiet);
  for (const int64_t steps : {2, 5, 6}) {
    static constexpr int kRanks[] = {3, 1, 4, 2};
    options.max_steps = steps;
    train_on(kRanks[steps % 4], scratch / "parts", options);
  }
  expect_same_run(scratch / "whole", scratch / "parts");
}

TEST(Ranks, OfAMachineHaveAGpuEach) {
  ThreadRanks ranks(4);
  ranks.host_of = [](int rank) { return rank == 2 ? "b" : "a"; };
  ranks.run([](Communicator& own) {
    static constexpr int kPlaces[] = {0, 1, 0, 2};
    const int place = kPlaces[own.rank()];
    EXPECT_EQ(device_of_rank(Device::cuda, own), cuda_device(place));
    EXPECT_EQ(device_of_rank(cuda_device(3), own), cuda_device(3 + place));
    EXPECT_EQ(device_of_rank(Device::cpu, own), Device::cpu);
    EXPECT_EQ(device_of_rank(Device::reference, own), Device::reference);
    if (place == 0) return;
    expect_throw<UsageError>("expected at most 8 GPUs of a machine, found cuda:",
                             [&] { device_of_rank(cuda_device(7), own); });
  });
}

// Two ranks of a machine compute on two GPUs.
TEST(Ranks, OnEachDevice) {
  testing::for_each_device([](Device device) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      SCOPED_TRACE(name_of(dtype));
      const Scratch scratch;
      TrainOptions options = four_batches("adamw");
      options.device = device;
      options.gradient_dtype = dtype;
      options.bucket_bytes = 1000;
      options.max_steps = 4;
      Quiet quiet;
      train_characters(scratch / "whole", options, quiet);
      options.max_steps = 2;
      train_on(2, scratch / "parts", options);
      options.max_steps = 4;
      train_on(2, scratch / "parts", options);
      expect_same_run(scratch / "whole", scratch / "parts");
    }
  });
}

TEST(Ranks, EachHasItsShareOfTheMoments) {
  const TrainOptions options = four_batches("adamw");
  const std::unique_ptr<Task> task = character_task();
  const std::vector<int> owners = owners_of(nn::parameters_of(*task), 3);
  std::vector<int64_t> elements(3);
  for (size_t i = 0; i < owners.size(); ++i)
    elements[static_cast<size_t>(owners[i])] += nn::parameters_of(*task)[i].parameter.shape.numel();
  const int64_t all = nn::count_parameters(*task);
  EXPECT_EQ(elements[0] + elements[1] + elements[2], all);
  for (const int64_t own : elements) EXPECT_LT(own, all * 4 / 10);
}

TEST(Ranks, BucketsOfAnySizeGiveTheSameBits) {
  const Scratch scratch;
  TrainOptions options = four_batches("adamw");
  Quiet quiet;
  train_characters(scratch / "whole", options, quiet);
  for (const int64_t bytes : {1, 1000, 1 << 20}) {
    SCOPED_TRACE(bytes);
    options.bucket_bytes = bytes;
    options.recompute = bytes == 1000;
    const std::string folder = concat("buckets-of-", bytes);
    train_on(3, scratch / folder, options);
    expect_same_run(scratch / "whole", scratch / folder);
  }
}

// Each sum is rounded where one process rounds it, and a rank sends half of the bytes.
TEST(Ranks, SumsInBf16HaveTheSameBitsForAnyNumber) {
  const Scratch scratch;
  TrainOptions options = four_batches("adamw");
  Quiet quiet;
  train_characters(scratch / "f32", options, quiet);
  options.gradient_dtype = DType::bf16;
  train_characters(scratch / "whole", options, quiet);
  EXPECT_NE(read_file(scratch / "whole/model.safetensors"), read_file(scratch / "f32/model.safetensors"));
  for (int ranks = 1; ranks <= 4; ++ranks) {
    SCOPED_TRACE(ranks);
    const std::string folder = concat("ranks-", ranks);
    train_on(ranks, scratch / folder, options);
    expect_same_run(scratch / "whole", scratch / folder);
  }
}

// A job of `qkv train`: the others get its settings and its tokenizer from the root.
TEST(Ranks, AJobEndsInTheSameFilesAsOneProcess) {
  const Scratch scratch;
  TranslationJob whole = small_job(scratch, "whole"), divided = small_job(scratch, "divided");
  whole.options.accumulate = divided.options.accumulate = 3;
  train(whole);
  const auto train_divided = [&] {
    ThreadRanks(3).run([&](Communicator& own) {
      Quiet quiet;
      if (own.is_root()) {
        run_job(divided, quiet, nullptr, own);
      } else {
        follow_job(own, [](const std::string& task) {
          EXPECT_EQ(task, "translation");
          return std::make_unique<TranslationJob>();
        });
      }
    });
  };
  divided.options.max_steps = 3;
  train_divided();
  divided.options.max_steps = whole.options.max_steps;
  divided.existing = IfRunExists::resume;
  train_divided();
  expect_same_run(whole.folder, divided.folder);
  EXPECT_FALSE(
      std::filesystem::exists(std::filesystem::temp_directory_path() / concat("qkv-rank-1.", ::getpid())));
}

}  // namespace
}  // namespace qkv::train
