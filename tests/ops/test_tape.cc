#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <limits>
#include <optional>

#include "qkv/ops/functions.h"
#include "qkv/ops/linear.h"
#include "qkv/ops/scope.h"
#include "tests/support/random.h"

namespace {

using namespace qkv;
using namespace qkv::testing;

TEST(Tape, WithoutOneNothingIsKept) {
  const Variable x = Variable::parameter(random_tensor({3, 4}, 1));
  EXPECT_FALSE(activate(x, Activation::silu).requires_grad());
  Tape tape;
  EXPECT_TRUE(activate(x, Activation::silu).requires_grad());
  EXPECT_FALSE(activate(Variable(random_tensor({3, 4}, 1)), Activation::silu).requires_grad());
}

TEST(Tape, DoesNotNest) {
  Tape tape;
  EXPECT_THROW(Tape(), UsageError);
}

TEST(Tape, NamesTheFirstBadNumber) {
  const Variable x = Variable::parameter(random_tensor({2, 3}, 1));
  Tape tape;
  const NameScope encoder("encoder");
  const NameScope layer("layers", 3);
  activate(x, Activation::silu);
  EXPECT_EQ(tape.first_non_finite(), std::nullopt);
  x.value().values()[4] = std::numeric_limits<float>::infinity();
  {
    const NameScope attention("self_attn");
    activate(x, Activation::identity);
  }
  EXPECT_EQ(tape.first_non_finite(), "encoder.layers.3.self_attn: activate [2, 3]: infinity at element 4");
}

TEST(Variable, ColumnsShareValueAndGradient) {
  const Variable x = Variable::parameter(random_tensor({3, 5}, 1));
  const Variable left = x.columns(0, 2), right = x.columns(3, 2);
  EXPECT_EQ(right.value().data()[5], x.value().data()[8]);
  right.add_grad(Tensor::full({3, 2}, 2.0f));
  left.add_grad(Tensor::full({3, 2}, 1.0f));
  right.add_grad(Tensor::full({3, 2}, 0.5f));
  const std::vector<float> row{1, 1, 0, 2.5f, 2.5f};
  for (int64_t i = 0; i < 15; ++i) EXPECT_EQ(x.grad().values()[i], row[i % 5]) << i;
}

TEST(Variable, GradientsOfViewsCoverTheWhole) {
  const Variable x = Variable::parameter(random_tensor({2, 6}, 1));
  const auto expect_row = [&](const std::vector<float>& row) {
    for (int64_t i = 0; i < 12; ++i) EXPECT_EQ(x.grad().values()[i], row[i % 6]) << i;
  };
  const auto add = [](const Variable& to, float value) { to.add_grad(Tensor::full(to.shape(), value)); };
  Variable whole = x;
  for (int round = 0; round < 2; ++round) {  // the second finds the first one's numbers in memory
    whole.clear_grad();
    add(x.columns(2, 2), 1);
    add(x.columns(3, 2), 2);  // half of it written, half not
    expect_row({0, 0, 1, 3, 2, 0});
    add(x.columns(0, 4).columns(1, 2), 4);
    expect_row({0, 4, 5, 3, 2, 0});
    add(x, 8);
    expect_row({8, 12, 13, 11, 10, 8});
  }
  whole.clear_grad();
  add(x.columns(4, 2), 1);
  add(x, 2);  // the whole after a view
  expect_row({2, 2, 2, 2, 3, 3});
}

TEST(Linear, SeesChangedWeights) {
  Variable w = Variable::parameter(random_tensor({4, 3}, 1));
  const LinearWeights weights({w});
  const Tensor x = random_tensor({2, 3}, 2);
  const Tensor before = linear(x, weights).value();
  for (float& value : w.value().values()) value *= 2;
  w.mark_modified();
  const Tensor after = linear(x, weights).value();
  for (int64_t i = 0; i < 8; ++i) EXPECT_FLOAT_EQ(after.values()[i], 2 * before.values()[i]);
}

// The gradients of a function's inputs, and its value.
std::vector<Tensor> run(const std::function<Variable(const std::vector<Variable>&)>& function,
                        const std::vector<Tensor>& inputs) {
  std::vector<Variable> leaves;
  for (const Tensor& input : inputs) leaves.push_back(Variable::parameter(input.clone()));
  Tape tape;
  const Variable y = function(leaves);
  std::vector<Tensor> results{y.value().clone()};
  tape.backward(weighted_sum(y, random_tensor(y.shape(), 99)));
  for (const Variable& leaf : leaves) results.push_back(leaf.grad());
  return results;
}

void expect_same_bits(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].shape(), b[i].shape());
    EXPECT_EQ(std::memcmp(a[i].data(), b[i].data(), a[i].bytes()), 0) << "tensor " << i;
  }
}

TEST(LinearActivate, IsLinearAndThenActivate) {
  const std::vector<Tensor> inputs{random_tensor({9, 5}, 1), random_tensor({7, 5}, 2), random_tensor({7}, 3)};
  for (const Activation activation : {Activation::relu, Activation::gelu_exact, Activation::identity}) {
    for (const float rate : {0.0f, 0.4f}) {
      const Dropout dropout{.rate = rate, .seed = 5, .step = 2, .site = 3};
      std::optional<LinearWeights> weights;  // the tape refers to them
      const auto fused = run(
          [&](const auto& in) {
            weights.emplace(std::vector{in[1]}, std::vector{in[2]});
            return linear_activate(in[0], *weights, activation, dropout);
          },
          inputs);
      const auto in_steps = run(
          [&](const auto& in) {
            weights.emplace(std::vector{in[1]}, std::vector{in[2]});
            return activate(linear(in[0], *weights), activation, dropout);
          },
          inputs);
      expect_same_bits(fused, in_steps);
    }
  }
}

TEST(ResidualLayerNorm, GivesTheSameBitsInTheBranchsMemory) {
  const std::vector<Tensor> inputs{random_tensor({9, 20}, 1), random_tensor({9, 20}, 2),
                                   random_tensor({20}, 3), random_tensor({20}, 4)};
  const auto with = [&](Afterwards afterwards, const Dropout& dropout) {
    return run(
        [=](const auto& in) {
          return residual_layer_norm(in[0], activate(in[1], Activation::silu), dropout, in[2], in[3], 1e-5f,
                                     afterwards);
        },
        inputs);
  };
  for (const float rate : {0.0f, 0.4f}) {
    const Dropout dropout{.rate = rate, .seed = 5, .step = 2, .site = 3};
    expect_same_bits(with(Afterwards::kept, dropout), with(Afterwards::used_up, dropout));
  }
}

TEST(Errors, NameBothShapes) {
  const LinearWeights weights({Variable(random_tensor({4, 3}, 1))});
  try {
    linear(random_tensor({2, 5}, 1), weights);
    FAIL() << "no error";
  } catch (const ShapeError& error) {
    EXPECT_NE(std::string(error.what()).find("[2, 5]"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("[4, 3]"), std::string::npos) << error.what();
  }
  EXPECT_THROW(residual(random_tensor({2, 5}, 1), random_tensor({5, 2}, 1)), ShapeError);
  EXPECT_THROW(embedding(random_tensor({4, 3}, 1), Tensor::from(std::vector<int32_t>{4}, {1}), {}, {}),
               DataError);
}

}  // namespace
