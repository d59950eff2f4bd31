#include "qkv/ops/general/linear_chosen.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <vector>

#include "qkv/ops/quantize.h"
#include "qkv/tensor/device_memory.h"
#include "tests/support/devices.h"
#include "tests/support/random.h"
#include "tests/support/scratch.h"

namespace {

using namespace qkv;
using namespace qkv::testing;

constexpr int64_t kInputs = 9, kOutputs = 6, kMaps = 4;

std::vector<LinearWeights> some_maps(Device device) {
  std::vector<LinearWeights> maps;
  for (uint64_t m = 0; m < kMaps; ++m) {
    maps.emplace_back(std::vector<Weight>{from_host(random_tensor({2, kInputs}, 10 + m), device),
                                          from_host(random_tensor({kOutputs - 2, kInputs}, 20 + m), device)},
                      std::vector<Variable>{from_host(random_tensor({2}, 30 + m), device), Variable()});
  }
  return maps;
}

TEST(LinearChosen, HasTheBitsOfLinearAndDoesNotWait) {
  const std::vector<int32_t> chosen{3, 1, 1, 0, 2, 3};
  for_each_device([&](Device device) {
    const std::vector<LinearWeights> maps = some_maps(device);
    const LinearChoices choices(maps);
    const Tensor x = from_host(random_tensor({3, kInputs}, 1), device);
    const int64_t waits = device_waits();
    const Tensor y = linear_chosen(x, choices, from_host(Tensor::from(chosen, {6}), device));
    EXPECT_EQ(device_waits(), waits);
    for (size_t row = 0; row < chosen.size(); ++row) {
      const Tensor expected =
          linear(x.slice_rows(static_cast<int64_t>(row) / 2, 1), maps[static_cast<size_t>(chosen[row])])
              .value();
      EXPECT_TRUE(std::ranges::equal(to_host(y.slice_rows(static_cast<int64_t>(row), 1)).values(),
                                     to_host(expected).values()))
          << row;
    }
  });
}

TEST(LinearChosen, ReadsWeightsAndBiasesThatHaveChanged) {
  std::vector<LinearWeights> maps = some_maps(Device::cpu);
  const LinearChoices choices(maps);
  const Tensor x = random_tensor({1, kInputs}, 1), chosen = Tensor::from(std::vector<int32_t>{2}, {1});
  const Tensor before = linear_chosen(x, choices, chosen);
  Variable(maps[2].weights()[1].variable()).set_value(random_tensor({kOutputs - 2, kInputs}, 50));
  Variable(maps[2].biases()[0]).set_value(random_tensor({2}, 51));
  const Tensor after = linear_chosen(x, choices, chosen);
  EXPECT_TRUE(std::ranges::equal(after.values(), linear(x, maps[2]).value().values()));
  for (int64_t i = 0; i < kOutputs; ++i) EXPECT_NE(before.data()[i], after.data()[i]);
}

TEST(LinearChosen, SuitsFewRowsAndMapsThatAreAlike) {
  const Tensor one = random_tensor({1, kInputs}, 1);
  const LinearChoices choices(some_maps(Device::cpu));
  EXPECT_TRUE(choices.suit(one));
  EXPECT_FALSE(choices.suit(random_tensor({2000, kInputs}, 1)));
  {
    const Tape tape;
    EXPECT_FALSE(choices.suit(one));
  }
  const auto suit = [&](const std::function<Weight(const Tensor&)>& second) {
    std::vector<LinearWeights> two;
    two.emplace_back(std::vector<Weight>{random_tensor({kOutputs, kInputs}, 1)});
    two.emplace_back(std::vector<Weight>{second(random_tensor({kOutputs, kInputs}, 2))});
    return LinearChoices(two).suit(one);
  };
  EXPECT_TRUE(suit([](const Tensor& weight) { return Weight(weight); }));
  EXPECT_FALSE(suit([](const Tensor& weight) { return Weight(to_dtype({weight, {}}, DType::bf16)); }));
  EXPECT_FALSE(suit([](const Tensor& weight) { return Weight(weight.slice_rows(1, 3)); }));
  EXPECT_FALSE(suit([](const Tensor& weight) {
    return Weight(weight, {},
                  std::make_shared<const LowRank>(
                      LowRank{random_tensor({1, kInputs}, 1), random_tensor({kOutputs, 1}, 2)}));
  }));
}

TEST(LinearChosen, RefusesArgumentsThatDoNotFit) {
  expect_throw<UsageError>("at least one map", [] { LinearChoices({}); });
  const LinearChoices choices(some_maps(Device::cpu));
  const Tensor x = random_tensor({2, kInputs}, 1);
  expect_throw<ShapeError>("does not fit weights [6, 9]", [&] {
    linear_chosen(random_tensor({2, kInputs + 1}, 1), choices, Tensor::zeros({2}, DType::i32));
  });
  expect_throw<ShapeError>("as many choices for each of 2 rows",
                           [&] { linear_chosen(x, choices, Tensor::zeros({3}, DType::i32)); });
  expect_throw<ShapeError>("as many choices", [&] { linear_chosen(x, choices, Tensor::zeros({2})); });
}

}  // namespace
