// What ranks send one another, and when.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "qkv/ops/general/arithmetic.h"
#include "qkv/ops/general/reduce.h"
#include "qkv/ops/tape.h"
#include "qkv/train/ranks/gradient_sum.h"
#include "tests/train/ranks/rank_run.h"

namespace qkv::train {
namespace {

using testing::ThreadRanks;
using namespace testing_task;  // NOLINT(google-build-using-namespace)

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

}  // namespace
}  // namespace qkv::train
