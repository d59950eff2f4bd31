#include "qkv/ops/weight_form.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <thread>

#include "qkv/base/parallel.h"
#include "qkv/ops/activation.h"
#include "qkv/ops/embedding.h"
#include "qkv/ops/general/weighted_sum.h"
#include "qkv/ops/linear.h"
#include "tests/support/random.h"
#include "tests/support/scratch.h"

namespace {

using namespace qkv;
using namespace qkv::testing;

Variable kept_as(WeightForm form, const Tensor& numbers) {
  Variable weight = Variable::parameter();
  const FormedWeight formed = in_form({numbers}, form);
  weight.set_value(formed.value, formed.scales);
  return weight;
}

// The f32 numbers that a form stands for.
Tensor meaning(const Variable& weight) {
  return in_form({weight.value(), weight.scales()}, WeightForm::f32).value;
}

class Forms : public ::testing::TestWithParam<WeightForm> {};

TEST_P(Forms, AMapIsThatOfTheNumbersItStandsFor) {
  const Variable q = kept_as(GetParam(), random_tensor({24, 40}, 1)),
                 k = kept_as(GetParam(), random_tensor({9, 40}, 2));
  const Variable bias = Variable::parameter(random_tensor({24}, 3));
  const LinearWeights weights({q, k}, {bias, Variable()});
  const Tensor x = random_tensor({7, 40}, 4);
  const Tensor y = linear(x, weights).value();
  ASSERT_EQ(y.shape(), (Shape{7, 33}));
  const Tensor wide_q = meaning(q), wide_k = meaning(k);
  // Inputs of int8 products are rounded to 255 steps: an error of half a step a product, of either sign.
  const double tolerance = GetParam() == WeightForm::int8 ? 40 * 0.5 * 2 / 255 * 0.25 : 1e-5;
  for (int64_t i = 0; i < 7; ++i) {
    for (int64_t j = 0; j < 33; ++j) {
      const float* row = j < 24 ? wide_q.data() + j * 40 : wide_k.data() + (j - 24) * 40;
      double sum = j < 24 ? bias.value().data()[j] : 0.0f;
      for (int64_t l = 0; l < 40; ++l) sum += double{x.data()[i * 40 + l]} * row[l];
      EXPECT_NEAR(y.data()[i * 33 + j], sum, tolerance) << i << ", " << j;
    }
  }
}

// Without a tape the activation takes the product's place.
TEST_P(Forms, AnActivatedMapIsTheActivationOfTheMap) {
  const LinearWeights weights({kept_as(GetParam(), random_tensor({70, 40}, 1))},
                              {Variable(random_tensor({70}, 2))});
  const Tensor x = random_tensor({9, 40}, 3);
  for (const auto activation :
       {kernels::Activation::relu, kernels::Activation::gelu_exact, kernels::Activation::silu}) {
    const Tensor found = linear_activate(x, weights, activation).value(),
                 expected = activate(linear(x, weights), activation, {}).value();
    EXPECT_EQ(std::memcmp(found.data(), expected.data(), expected.bytes()), 0);
  }
}

TEST_P(Forms, ARowIsTheSameAloneAndFromManyThreads) {
  const LinearWeights weights({kept_as(GetParam(), random_tensor({130, 96}, 1))},
                              {Variable(random_tensor({130}, 2))});
  const Tensor x = random_tensor({60, 96}, 3);
  const Tensor whole = linear(x, weights).value();
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int64_t row = 0; row < 60; ++row) {
        const Tensor alone = linear(x.slice_rows(row, 1), weights).value();
        wrong[t] += std::memcmp(alone.data(), whole.data() + row * 130, 130 * sizeof(float)) != 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4));
}

TEST_P(Forms, AChangedWeightIsNoticed) {
  Variable weight = kept_as(GetParam(), random_tensor({5, 8}, 1)), bias(random_tensor({5}, 2));
  const LinearWeights weights({weight}, {bias});
  const Tensor x = random_tensor({2, 8}, 3);
  const Tensor first = linear(x, weights).value();
  bias.set_value(Tensor::zeros({5}));
  const Tensor without = linear(x, weights).value();
  EXPECT_NE(std::memcmp(first.data(), without.data(), first.bytes()), 0);
  const FormedWeight other = in_form({random_tensor({5, 8}, 4)}, GetParam());
  weight.set_value(other.value, other.scales);
  const Tensor changed = linear(x, weights).value();
  EXPECT_NE(std::memcmp(changed.data(), without.data(), without.bytes()), 0);
}

TEST_P(Forms, ATableIsLookedUpInTheNumbersItStandsFor) {
  const Variable table = kept_as(GetParam(), random_tensor({11, 20}, 1));
  const Tensor ids = Tensor::from(std::vector<int32_t>{3, 10, 0, 3}, {4});
  const Tensor y = embedding(table, ids, {}, {.factor = 2}).value();
  const Tensor wide = meaning(table);
  for (int64_t t = 0; t < 4; ++t) {
    for (int64_t c = 0; c < 20; ++c)
      EXPECT_EQ(y.data()[t * 20 + c], 2 * wide.data()[ids.data<int32_t>()[t] * 20 + c]);
  }
}

TEST_P(Forms, OnlyF32IsTrained) {
  const Variable weight = kept_as(GetParam(), random_tensor({11, 20}, 1));
  const LinearWeights weights({weight});
  const Tensor x = random_tensor({2, 20}, 2);
  const Tensor ids = Tensor::from(std::vector<int32_t>{3, 10}, {2});
  const auto train = [&] {
    Tape tape;
    tape.backward(weighted_sum(linear(embedding(weight, ids, {}, {}), weights), random_tensor({2, 11}, 3)));
  };
  if (GetParam() == WeightForm::f32) {
    train();
    EXPECT_TRUE(weight.has_grad());
    return;
  }
  const std::string message = message_of<UsageError>([&] {
    Tape tape;
    linear(x, weights);
  });
  EXPECT_NE(message.find("only f32 weights can be trained"), std::string::npos) << message;
  EXPECT_NE(message.find("[11, 20]"), std::string::npos) << message;
  EXPECT_NE(message_of<UsageError>(train).find("only an f32 table can be trained"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(All, Forms, ::testing::Values(WeightForm::f32, WeightForm::bf16, WeightForm::int8),
                         [](const auto& form) { return std::string(name_of(form.param)); });

TEST(WeightForm, IsKnownByName) {
  for (const std::string& name : weight_form_names()) EXPECT_EQ(name_of(weight_form(name)), name);
  const std::string message = message_of<UsageError>([] { weight_form("int4"); });
  EXPECT_NE(message.find("expected f32, bf16 or int8, found \"int4\""), std::string::npos) << message;
}

TEST(WeightForm, ConvertsThereAndBack) {
  const Tensor numbers = random_tensor({6, 50}, 1);
  const FormedWeight int8 = in_form({numbers}, WeightForm::int8);
  EXPECT_EQ(int8.value.dtype(), DType::i8);
  ASSERT_EQ(int8.scales.shape(), Shape{6});
  // Once rounded, an int8 weight is exact in f32, and rounds to itself.
  const FormedWeight wide = in_form(int8, WeightForm::f32), again = in_form(wide, WeightForm::int8);
  EXPECT_EQ(std::memcmp(again.value.address(), int8.value.address(), int8.value.bytes()), 0);
  const FormedWeight same = in_form(int8, WeightForm::int8);
  EXPECT_EQ(same.value.address(), int8.value.address()) << "copied";
}

TEST(WeightForm, RefusesWhatInt8CannotSay) {
  const Tensor bad = random_tensor({3, 4}, 1);
  bad.values()[5] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_NE(message_of<NumericError>([&] { in_form({bad}, WeightForm::int8); }).find("[3, 4]"),
            std::string::npos);
  EXPECT_TRUE(std::isnan(in_form(in_form({bad}, WeightForm::bf16), WeightForm::f32).value.values()[5]));
  EXPECT_THROW(in_form({Tensor::full({1, 70000}, 1.0f)}, WeightForm::int8), ShapeError);
  EXPECT_THROW(form_of(DType::i32), ShapeError);
}

TEST(WeightForm, WeightsOfOneMapHaveOneForm) {
  const Tensor numbers = random_tensor({5, 8}, 1);
  const LinearWeights weights({kept_as(WeightForm::bf16, numbers), kept_as(WeightForm::int8, numbers)});
  EXPECT_NE(message_of<ShapeError>([&] {
              linear(random_tensor({1, 8}, 2), weights);
            }).find("one form"),
            std::string::npos);
}

}  // namespace
