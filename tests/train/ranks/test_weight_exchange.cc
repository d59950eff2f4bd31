// Updated weights travel while the next forward pass begins.

#include "qkv/train/ranks/weight_exchange.h"

#include <gtest/gtest.h>

#include <chrono>
#include <span>
#include <thread>
#include <vector>

#include "qkv/base/error.h"
#include "tests/support/scratch.h"
#include "tests/support/thread_ranks.h"

namespace qkv::train {
namespace {

using testing::expect_throw;
using testing::ThreadRanks;

// Three weights of two elements, all of value `value`.
std::vector<nn::NamedParameter> three_weights(float value) {
  std::vector<nn::NamedParameter> weights;
  for (const char* name : {"a", "b", "c"}) {
    weights.push_back({name, nn::Parameter({2}, {})});
    weights.back().parameter.variable.set_value(Tensor::full({2}, value));
  }
  return weights;
}

float first_of(const nn::NamedParameter& weight) { return weight.parameter.variable.value().data()[0]; }

// The root sends late: a read that does not wait finds the old value.
TEST(WeightExchange, AReadOfAWeightWaitsUntilItHasArrived) {
  ThreadRanks(2).run([](Communicator& own) {
    const std::vector<nn::NamedParameter> weights = three_weights(own.is_root() ? 5 : 1);
    WeightExchange exchange(weights, {0, 1, 0}, 1, own);
    exchange.updated({true, false, true}, [] { throw UsageError("read too early"); });
    if (own.is_root()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      exchange.begin();
      exchange.complete();
      return;
    }
    expect_throw<UsageError>("read too early", [&] { first_of(weights[0]); });
    EXPECT_EQ(first_of(weights[1]), 1);  // its own
    exchange.begin();
    EXPECT_EQ(first_of(weights[2]), 5);
    EXPECT_EQ(first_of(weights[0]), 5);
    exchange.complete();
    const auto [under_way, hidden] = exchange.take_times();
    EXPECT_LE(hidden, under_way);
    EXPECT_GE(exchange.waited(), under_way - hidden - 1e-9);
  });
}

TEST(WeightExchange, SendsTheUpdatedWeightsInTheirOrder) {
  ThreadRanks(2).run([](Communicator& own) {
    const std::vector<nn::NamedParameter> weights = three_weights(0);
    const std::vector<float> sent{1, 2, 3};
    if (own.is_root()) {
      for (size_t i = 0; i < 3; ++i) {
        Variable variable = weights[i].parameter.variable;
        variable.mutable_value().data()[1] = sent[i];
      }
      WeightExchange exchange(weights, {0, 0, 0}, 1, own);
      exchange.updated({true, false, true}, [] {});
      exchange.begin();
      exchange.complete();
      EXPECT_EQ(own.traffic().bytes_sent, 16);
      return;
    }
    for (const float expected : {1.0f, 3.0f}) {
      std::vector<float> found(2);
      own.receive(0, std::as_writable_bytes(std::span(found)));
      EXPECT_EQ(found, (std::vector<float>{0, expected}));
    }
  });
}

}  // namespace
}  // namespace qkv::train
