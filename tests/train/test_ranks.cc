// Data parallelism, with ranks as threads.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "qkv/base/log.h"
#include "qkv/base/parallel.h"
#include "qkv/ops/general/arithmetic.h"
#include "qkv/ops/general/reduce.h"
#include "qkv/ops/tape.h"
#include "qkv/train/ranks/division.h"
#include "qkv/train/ranks/gradient_sum.h"
#include "qkv/train/ranks/replica.h"
#include "tests/support/devices.h"
#include "tests/support/scratch.h"
#include "tests/support/thread_ranks.h"
#include "tests/train/character_run.h"
#include "tests/train/reverse_task.h"
#include "tests/train/same_run.h"

namespace qkv::train {
namespace {

using testing::expect_same_run;
using testing::expect_throw;
using testing::Scratch;
using testing::ThreadRanks;
using namespace testing_task;  // NOLINT(google-build-using-namespace)

TrainOptions four_batches(const std::string& optimizer) {
  TrainOptions options = short_run_with(optimizer);
  options.accumulate = 4;
  options.max_steps = 6;
  options.validate_every = 3;
  return options;
}

void train_on(int ranks, const std::filesystem::path& folder, const TrainOptions& options,
              TrainObserver* observer = nullptr) {
  ThreadRanks(ranks).run([&](Communicator& own) {
    if (!own.is_root()) {
      const std::unique_ptr<Task> task = character_task();
      Replica(*task, options, own).follow();
      return;
    }
    Quiet quiet;
    Trainer trainer(character_task(), options, RunFolder(folder, IfRunExists::resume), own);
    trainer.run(observer ? *observer : quiet);
    trainer.end();
  });
}

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

TEST(Ranks, SendHalfTheBytesInBf16) {
  const auto bytes_of_gradients = [](DType dtype) {
    int64_t bytes = 0;
    ThreadRanks(2).run([&](Communicator& own) {
      nn::Parameter copy({1000}, {});
      copy.variable.set_value(Tensor::zeros({1000}));
      GradientSum sum({{"one", copy}}, 2, 1 << 20, dtype, Device::cpu, own);
      sum.begin();
      copy.variable.add_grad(Tensor::full({1000}, own.is_root() ? 1.0f : 1 + 1.0f / 128 + 1.0f / 256));
      sum.take(0, own.rank());
      sum.finish();
      sum.give();
      if (own.is_root()) {
        // The second is halfway between 1 + 1/128 and 1 + 2/128: to even.
        EXPECT_EQ(copy.variable.grad().values()[999], dtype == DType::bf16 ? 2 + 1.0f / 64 : 2 + 3.0f / 256);
      } else {
        EXPECT_FALSE(copy.variable.has_grad());
        bytes = own.traffic().bytes_sent;
      }
      sum.clear();
    });
    return bytes;
  };
  EXPECT_EQ(bytes_of_gradients(DType::f32), 4001);
  EXPECT_EQ(bytes_of_gradients(DType::bf16), 2001);
}

// The character task with a parameter that the model's first operation reads, so that its backward function
// is the last: from then on, a rank's backward pass has ended.
class MarkedTask : public CharacterTask {
 public:
  explicit MarkedTask(std::vector<std::string>& events)
      : CharacterTask(nursery_rhyme(40), nursery_rhyme(4), {}), events_(events) {}
  void visit(const nn::ParameterVisitor& visitor) const override {
    visitor("first", first_);
    CharacterTask::visit(visitor);
  }
  void initialise(uint64_t seed) override {
    CharacterTask::initialise(seed);
    nn::initialise("first", first_, seed);
  }
  BatchLoss loss(const Batch& batch, const BatchSize& step, nn::ForwardContext& context) const override {
    if (!Tape::records()) return CharacterTask::loss(batch, step, context);
    const Variable first = first_.variable;
    const Variable mark =
        Tape::record("first", first.value(), {first}, [this, first](const Tensor& gradient) {
          first.add_grad(gradient);
          events_.emplace_back("backward");
        });
    BatchLoss result = CharacterTask::loss(batch, step, context);
    result.loss = result.loss + sum(mark);
    return result;
  }

 private:
  std::vector<std::string>& events_;
  nn::Parameter first_{{4}, {nn::Initializer::Kind::normal}};
};

TEST(Ranks, SendGradientsDuringTheBackwardPassOfTheirLastBatch) {
  TrainOptions options = four_batches("adamw");
  options.bucket_bytes = 1000;
  options.max_steps = 1;
  std::vector<std::vector<std::string>> events(2);
  ThreadRanks ranks(2);
  ranks.on_send = [&](int rank) { events[static_cast<size_t>(rank)].emplace_back("send"); };
  ranks.run([&](Communicator& own) {
    auto& of_rank = events[static_cast<size_t>(own.rank())];
    MarkedTask task(of_rank);
    Replica replica(task, options, own);
    if (!own.is_root()) return replica.follow();
    replica.start(nullptr, {});
    replica.load();
    of_rank.clear();
    replica.step(0.01, 1, 0);
    replica.end();
  });
  // Two batches, and several buckets before the end of the second one's backward pass.
  for (size_t rank = 0; rank < 2; ++rank) {
    const auto& all = events[rank];
    const auto first = std::ranges::find(all, "backward");
    ASSERT_NE(first, all.end());
    const auto second = std::find(first + 1, all.end(), "backward");
    ASSERT_NE(second, all.end());
    EXPECT_GT(std::count(first, second, "send"), 3) << "rank " << rank;
    EXPECT_EQ(std::count(second, all.end(), "backward"), 1);
  }
}

// The root reads weights that others have updated after each step, as an observer may.
TEST(Ranks, TheRootReadsUpdatedWeightsBetweenSteps) {
  const auto weights_after_steps = [](int ranks) {
    std::vector<std::vector<float>> found;
    ThreadRanks(ranks).run([&](Communicator& own) {
      const std::unique_ptr<Task> task = character_task();
      Replica replica(*task, four_batches("adamw"), own);
      if (!own.is_root()) return replica.follow();
      replica.start(nullptr, {});
      for (int64_t step = 1; step <= 3; ++step) {
        replica.load();
        replica.step(0.01, step, 4 * (step - 1));
        if (step == 2) continue;  // whose weights only the next step reads
        for (const auto& [name, parameter] : replica.parameters()) {
          const auto values = parameter.variable.value().values();
          found.emplace_back(values.begin(), values.end());
        }
      }
      replica.end();
    });
    return found;
  };
  const auto expected = weights_after_steps(1);
  ASSERT_FALSE(expected.empty());
  EXPECT_EQ(weights_after_steps(3), expected);
}

TEST(Ranks, MoreThanBatchesAreRefused) {
  const Scratch scratch;
  TrainOptions options = four_batches("adamw");
  options.accumulate = 2;
  expect_throw<UsageError>("train.accumulate: expected a batch in each step for each of 3 ranks, found 2",
                           [&] { train_on(3, scratch / "run", options); });
}

TEST(Ranks, OtherSettingsOrDataAreRefusedByName) {
  const Scratch scratch;
  const TrainOptions options = four_batches("adamw");
  const auto differing = [&](const TrainOptions& other, const CharacterOptions& characters) {
    ThreadRanks(2).run([&](Communicator& own) {
      const std::unique_ptr<Task> task = character_task(own.is_root() ? CharacterOptions{} : characters);
      Replica(*task, own.is_root() ? options : other, own).follow();
    });
  };
  TrainOptions other = options;
  other.seed = 8;
  expect_throw<UsageError>("train.seed: expected \"7\" as on rank 0, found \"8\" on rank 1",
                           [&] { differing(other, {}); });
  expect_throw<UsageError>("characters.length: expected \"24\" as on rank 0, found \"25\" on rank 1",
                           [&] { differing(options, {.length = 25}); });
}

// A task of which one rank's copy fails in its third step.
class FailingTask : public CharacterTask {
 public:
  enum class How { nan_loss, error };
  FailingTask(const Communicator& own, int rank, How how)
      : CharacterTask(nursery_rhyme(40), nursery_rhyme(4), {}), fails_(own.rank() == rank), how_(how) {}

  BatchLoss loss(const Batch& batch, const BatchSize& step, nn::ForwardContext& context) const override {
    BatchLoss result = CharacterTask::loss(batch, step, context);
    if (!fails_ || !context.training || context.step <= 8) return result;
    if (how_ == How::error) throw DataError("no such file");
    result.curves.front().sum = std::nan("");
    return result;
  }

 private:
  bool fails_;
  How how_;
};

template <class Expected>
void expect_failure(FailingTask::How how, const std::string& message) {
  const Scratch scratch;
  TrainOptions options = four_batches("adamw");
  options.max_steps = 8;
  expect_throw<Expected>(message, [&] {
    ThreadRanks(2).run([&](Communicator& own) {
      if (!own.is_root()) {
        FailingTask task(own, 1, how);
        return Replica(task, options, own).follow();
      }
      Quiet quiet;
      Trainer trainer(std::make_unique<FailingTask>(own, 1, how), options,
                      RunFolder(scratch / "run", IfRunExists::resume), own);
      trainer.run(quiet);
      trainer.end();
    });
  });
}

TEST(Ranks, AFailureNamesItsRank) {
  expect_failure<NumericError>(FailingTask::How::nan_loss, "step 3: the loss is NaN");
  expect_failure<NumericError>(FailingTask::How::nan_loss, ", on rank 1");
  expect_failure<Error>(FailingTask::How::error, "rank 1: no such file");
}

TEST(SlowRanks, AreFoundByTheMedianOfTheTimesOfABatch) {
  const auto after_steps = [](SlowRanks& slow, const std::vector<double>& seconds) {
    for (int64_t step = 1; step < SlowRanks::kSteps; ++step) EXPECT_TRUE(slow.add(seconds).empty());
    return slow.add(seconds);
  };
  SlowRanks slow({1, 2, 1, 1});  // the second has twice the batches
  EXPECT_TRUE(after_steps(slow, {1, 2, 1, 1.4}).empty());
  std::vector<SlowRanks::Found> found = after_steps(slow, {1, 2, 1, 1.6});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].rank, 3);
  EXPECT_NEAR(found[0].seconds, 1.6, 1e-9);
  EXPECT_NEAR(found[0].median, 1, 1e-9);
  // Not named again for two comparisons, then for four; another rank is.
  EXPECT_TRUE(after_steps(slow, {1, 2, 1, 1.6}).empty());
  found = after_steps(slow, {3, 2, 1, 1.6});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].rank, 0);
  EXPECT_EQ(after_steps(slow, {1, 2, 1, 1.6}).size(), 1U);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(after_steps(slow, {1, 2, 1, 1.6}).empty());
  EXPECT_EQ(after_steps(slow, {1, 2, 1, 1.6}).size(), 1U);

  SlowRanks two({1, 1});
  EXPECT_EQ(after_steps(two, {1, 2}).size(), 1U);
  SlowRanks fast({1, 1});  // too little is lost
  EXPECT_TRUE(after_steps(fast, {0.01, 0.05}).empty());
}

// A task of which one rank's copy takes 70 ms longer.
class SlowTask : public CharacterTask {
 public:
  explicit SlowTask(bool slow) : CharacterTask(nursery_rhyme(40), nursery_rhyme(4), {}), slow_(slow) {}
  BatchLoss loss(const Batch& batch, const BatchSize& step, nn::ForwardContext& context) const override {
    if (slow_) std::this_thread::sleep_for(std::chrono::milliseconds(70));
    return CharacterTask::loss(batch, step, context);
  }

 private:
  bool slow_;
};

TEST(Ranks, ASlowOneIsNamedInAWarning) {
  const Scratch scratch;
  TrainOptions options = short_run();
  options.max_steps = SlowRanks::kSteps;
  std::string warnings;
  set_log_sink([&](LogLevel, const std::string& message) { warnings += message + "\n"; });
  ThreadRanks(2).run([&](Communicator& own) {
    if (!own.is_root()) {
      SlowTask task(true);
      return Replica(task, options, own).follow();
    }
    Quiet quiet;
    Trainer trainer(std::make_unique<SlowTask>(false), options,
                    RunFolder(scratch / "run", IfRunExists::resume), own);
    trainer.run(quiet);
    trainer.end();
  });
  set_log_sink({});
  EXPECT_NE(warnings.find("rank 1 computes a batch in 0."), std::string::npos) << warnings;
  EXPECT_NE(warnings.find("all wait for it in each step"), std::string::npos) << warnings;
  EXPECT_EQ(std::ranges::count(warnings, '\n'), 1) << warnings;
}

TEST(Ranks, ASignalOfOneStopsAll) {
  const Scratch scratch;
  const TrainOptions options = four_batches("adamw");
  const std::atomic<bool> signal = true;
  TrainResult result;
  ThreadRanks(2).run([&](Communicator& own) {
    if (!own.is_root()) {
      const std::unique_ptr<Task> task = character_task();
      return Replica(*task, options, own, &signal).follow();
    }
    Quiet quiet;
    Trainer trainer(character_task(), options, RunFolder(scratch / "run", IfRunExists::resume), own);
    result = trainer.run(quiet);
    trainer.end();
  });
  EXPECT_EQ(result.reason, StopReason::requested);
  EXPECT_EQ(result.steps, 1);
}

// A task of which the second rank is requested to stop in its validation.
class StoppedTask : public CharacterTask {
 public:
  explicit StoppedTask(std::atomic<bool>& stop)
      : CharacterTask(nursery_rhyme(40), nursery_rhyme(4), {}), stop_(stop) {}
  std::optional<Evaluation> evaluate(const EvaluationRequest& request) const override {
    if (request.ranks->rank() == 1) stop_ = true;
    const auto nothing = [](int64_t) { return std::string(); };
    if (!divide(*request.ranks, request.stop, 10, nothing, [](int64_t, std::string_view) {}))
      return std::nullopt;
    return CharacterTask::evaluate(request);
  }

 private:
  std::atomic<bool>& stop_;
};

TEST(Ranks, ASignalOfOneStopsTheValidationOfAll) {
  const Scratch scratch;
  const TrainOptions options = four_batches("adamw");
  std::atomic<bool> signal = false;
  TrainResult result;
  ThreadRanks(2).run([&](Communicator& own) {
    if (!own.is_root()) {
      StoppedTask task(signal);
      return Replica(task, options, own, &signal).follow();
    }
    Quiet quiet;
    Trainer trainer(std::make_unique<StoppedTask>(signal), options,
                    RunFolder(scratch / "run", IfRunExists::resume), own);
    result = trainer.run(quiet);
    trainer.end();
  });
  EXPECT_EQ(result.reason, StopReason::requested);
  EXPECT_EQ(result.steps, options.validate_every);
  EXPECT_TRUE(result.validations.empty());
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
