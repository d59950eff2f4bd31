#include "qkv/ops/general/router.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "qkv/base/scope.h"
#include "tests/support/random.h"
#include "tests/support/scratch.h"

namespace {

using namespace qkv;
using namespace qkv::testing;

Tensor best(const Tensor& logits, int64_t count) {
  return choose_experts(logits, {}, {.experts = logits.cols(), .per_token = count});
}

std::vector<int32_t> best_of(const std::vector<float>& row, int64_t count) {
  const Tensor found = best(Tensor::from(row, {1, std::ssize(row)}), count);
  return {found.values<int32_t>().begin(), found.values<int32_t>().end()};
}

TEST(Router, ChoosesTheBestFirstAndTheLowerIndexFirstAmongEquals) {
  EXPECT_EQ(best_of({3, -1, 7, 3, 0}, 3), (std::vector<int32_t>{2, 0, 3}));
  EXPECT_EQ(best_of({1, 1, 1}, 3), (std::vector<int32_t>{0, 1, 2}));
  const float nan = std::nanf(""), infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(best_of({nan, 2, nan, -infinity, infinity}, 5), (std::vector<int32_t>{4, 1, 0, 2, 3}));
  for (const int64_t count : {0, 4})
    expect_throw<ShapeError>("logits [1, 3] do not fit", [&] { best_of({1, 2, 3}, count); });
}

TEST(Router, RefusesArgumentsThatDoNotFit) {
  const RouterRule rule{.experts = 4, .per_token = 2};
  const Tensor logits = random_tensor({3, 4}, 1), chosen = choose_experts(logits, {}, rule);
  expect_throw<ShapeError>("correction of 4 experts",
                           [&] { choose_experts(logits, Tensor::zeros({3}), rule); });
  expect_throw<ShapeError>("do not fit 2 of 5",
                           [&] { choose_experts(logits, {}, {.experts = 5, .per_token = 2}); });
  expect_throw<ShapeError>("in 3 groups",
                           [&] { choose_experts(logits, {}, {.experts = 4, .per_token = 2, .groups = 3}); });
  expect_throw<ShapeError>("experts i32 [3, 2]", [&] {
    expert_weights(logits, Tensor::zeros({3, 2}), rule);
  });
  expect_throw<ShapeError>("experts i32 [3, 2]", [&] {
    expert_weights(logits, Tensor::zeros({2, 2}, DType::i32), rule);
  });
}

TEST(RouterBalance, IsTheNumberOfExpertsATokenWhereAllAreUsedEquallyOften) {
  RouterBalance balance(1);
  EXPECT_EQ(balance.loss(), 0);
  const auto of = [](float own) {
    const auto made = std::make_shared<RouterBalance>(1);
    Tensor logits = Tensor::zeros({4, 4});
    for (int64_t i = 0; i < 4; ++i) logits.data()[i * 4 + (own > 0 ? i : 0)] = std::abs(own);
    balanced(logits, best(logits, 1), made);
    return made->loss();
  };
  EXPECT_NEAR(of(5), 1, 1e-6);
  EXPECT_GT(of(-5), 3.9);  // all choose one, with nearly the probability 1
}

// Two layers and a factor: the shares of both count for each.
TEST(RouterBalance, AddsItsGradientToThatOfTheLogits) {
  const std::vector<Tensor> values{random_tensor({6, 4}, 1), random_tensor({6, 4}, 2)};
  const auto total = [&](const std::vector<Tensor>& logits, const std::shared_ptr<RouterBalance>& balance) {
    for (size_t layer = 0; layer < logits.size(); ++layer) {
      const NameScope scope("layers", static_cast<int>(layer));
      balanced(logits[layer], best(values[layer], 2), balance);
    }
    return balance->loss();
  };
  const auto balance = std::make_shared<RouterBalance>(3);
  std::vector<Variable> leaves;
  for (const Tensor& one : values) leaves.push_back(Variable::parameter(one));
  const Tensor ones = Tensor::full({6, 4}, 1.0f);
  for (size_t layer : {0, 1}) {
    {
      const NameScope scope("layers", static_cast<int>(1 - layer));
      balanced(values[1 - layer], best(values[1 - layer], 2), balance);
    }
    const NameScope scope("layers", static_cast<int>(layer));
    Tape tape;
    tape.backward(balanced(leaves[layer], best(values[layer], 2), balance), ones.clone());
    for (int64_t i = 0; i < 24; ++i) {
      const auto moved = [&](float step) {
        std::vector<Tensor> changed{values[0].clone(), values[1].clone()};
        changed[layer].data()[i] += step;
        return total(changed, std::make_shared<RouterBalance>(3));
      };
      EXPECT_NEAR(leaves[layer].grad().data()[i], 1 + 3 * (moved(1e-2f) - moved(-1e-2f)) / 2e-2, 2e-4);
    }
  }
}

TEST(RouterBalance, RefusesLayersOfDifferentNumbersOfExperts) {
  const auto balance = std::make_shared<RouterBalance>(1);
  for (const int64_t experts : {3, 4}) {
    const NameScope scope("layers", static_cast<int>(experts));
    const Tensor logits = random_tensor({2, experts}, 1);
    balanced(logits, best(logits, 1), balance);
  }
  expect_throw<UsageError>("expected 3 experts, as in the layers before, found 4", [&] { balance->loss(); });
  expect_throw<ShapeError>("balanced: expected the experts of 2 rows", [&] {
    balanced(random_tensor({2, 3}, 1), Tensor::zeros({1, 1}, DType::i32), balance);
  });
}

}  // namespace
