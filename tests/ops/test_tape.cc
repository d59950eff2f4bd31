#include <gtest/gtest.h>

#include <limits>

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

TEST(Linear, SeesChangedWeights) {
  Variable w = Variable::parameter(random_tensor({4, 3}, 1));
  const LinearWeights weights({w});
  const Tensor x = random_tensor({2, 3}, 2);
  const Tensor before = linear(x, weights).value();
  for (float& value : w.value().values()) value *= 2;
  w.touch();
  const Tensor after = linear(x, weights).value();
  for (int64_t i = 0; i < 8; ++i) EXPECT_FLOAT_EQ(after.values()[i], 2 * before.values()[i]);
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
