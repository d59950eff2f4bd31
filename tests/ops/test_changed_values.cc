// Values that change between the forward and the backward pass; tapes and gradients that end in other orders.

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "qkv/base/scope.h"
#include "qkv/ops/activation.h"
#include "qkv/ops/attention.h"
#include "qkv/ops/embedding.h"
#include "qkv/ops/gated.h"
#include "qkv/ops/general/arithmetic.h"
#include "qkv/ops/general/losses.h"
#include "qkv/ops/general/matmul.h"
#include "qkv/ops/general/reduce.h"
#include "qkv/ops/general/slice.h"
#include "qkv/ops/general/softmax.h"
#include "qkv/ops/linear_activate.h"
#include "qkv/ops/linear_cross_entropy.h"
#include "qkv/ops/linear_of.h"
#include "qkv/ops/low_rank.h"
#include "qkv/ops/norm.h"
#include "qkv/ops/recompute.h"
#include "tests/support/random.h"
#include "tests/support/scratch.h"

namespace {

using namespace qkv;
using namespace qkv::testing;

Tensor fives(const Shape& shape) { return Tensor::full(shape, 5.0f); }

struct ChangedCase {
  std::string name;  // of the operation in the message
  std::vector<Shape> inputs;
  std::function<Variable(const std::vector<Variable>&)> call;
  // Whether the backward function reads the input's value; as PyTorch's formulas in derivatives.yaml.
  std::vector<bool> read;
};

std::vector<ChangedCase> changed_cases() {
  using In = const std::vector<Variable>&;
  const Tensor labels = Tensor::from(std::vector<int32_t>{1, 0, 2}, {3});
  const auto inner = [](In in) { return activate(in[0], Activation::silu); };
  return {
      {"add", {{3, 4}, {4}}, [](In in) { return in[0] + in[1]; }, {false, false}},
      {"multiply", {{3, 4}, {3, 4}}, [](In in) { return in[0] * in[1]; }, {true, true}},
      {"divide", {{3, 4}, {3, 4}}, [](In in) { return in[0] / in[1]; }, {false, true}},
      {"matmul", {{3, 4}, {4, 2}}, [](In in) { return matmul(in[0], in[1]); }, {true, true}},
      {"sum", {{3, 4}}, [](In in) { return sum(in[0]); }, {false}},
      {"softmax", {{3, 4}}, [](In in) { return softmax(in[0]); }, {false}},
      {"slice", {{3, 4}}, [](In in) { return slice(in[0], 1, 1, 2); }, {false}},
      {"cross_entropy", {{3, 4}}, [=](In in) { return cross_entropy(in[0], labels); }, {true}},
      {"embedding", {{4, 2}}, [=](In in) { return embedding(in[0], labels, {}, {}); }, {false}},
      {"activate", {{3, 4}}, inner, {true}},
      {"gated", {{3, 4}, {3, 4}}, [](In in) { return gated(in[0], in[1], Activation::silu); }, {true, true}},
      {"residual", {{3, 4}, {3, 4}}, [](In in) { return residual(in[0], in[1]); }, {false, false}},
      {"layer_norm",
       {{3, 4}, {4}, {4}},
       [](In in) { return layer_norm(in[0], in[1], in[2], 1e-5f); },
       {true, true, false}},
      {"linear",
       {{3, 4}, {2, 4}, {2}},
       [](In in) { return linear(in[0], LinearWeights({in[1]}, {in[2]})); },
       {true, true, false}},
      {"linear_activate",
       {{3, 4}, {2, 4}, {2}},
       [](In in) { return linear_activate(in[0], LinearWeights({in[1]}, {in[2]}), Activation::relu); },
       {true, true, false}},
      {"cross_entropy",
       {{3, 4}, {5, 4}},
       [=](In in) { return linear_cross_entropy(in[0], LinearWeights({in[1]}), labels, {}).loss; },
       {false, false}},
      {"linear",
       {{3, 4}, {2, 4}, {1, 4}, {2, 1}},
       [](In in) {
         const Weight weight(in[1], {}, std::make_shared<LowRank>(LowRank{in[2], in[3], 0.5f}));
         return linear(in[0], LinearWeights({weight}));
       },
       {true, true, true, true}},
      {"linear",
       {{3, 4}, {2, 4}},
       [=](In in) { return linear_of([=] { return inner(in); }, {in[0]}, LinearWeights({in[1]})); },
       {true, true}},
      {"attention",
       {{3, 4}, {3, 4}, {3, 4}},
       [](In in) { return multihead_attention(in[0], in[1], in[2], 2, {}).output; },
       {true, true, true}},
      {"recomputed",
       {{3, 4}},
       [=](In in) {
         const Tensor value = [&] {
           const Tape::Pause pause;
           return inner(in).value();
         }();
         return recomputed(value, {in[0]}, [=] { return inner(in); });
       },
       {true}},
  };
}

std::vector<Variable> leaves_for(const ChangedCase& one) {
  std::vector<Variable> leaves;
  for (const Shape& shape : one.inputs)
    leaves.push_back(Variable::parameter(random_tensor(shape, static_cast<uint64_t>(leaves.size()) + 1)));
  return leaves;
}

Tensor ones_like(const Variable& y) { return Tensor::full(y.shape(), 1.0f); }

TEST(ChangedValues, ThatBackwardReadsAreRefused) {
  const std::vector<std::function<void(Variable)>> changes{
      [](Variable x) { x.set_value(fives(x.shape())); },
      [](Variable x) { x.mutable_value().copy_from(fives(x.shape())); },
      [](Variable x) { x.columns(0, 1).mark_modified(); },
  };
  for (const ChangedCase& one : changed_cases()) {
    std::vector<Tensor> expected;
    {
      const std::vector<Variable> leaves = leaves_for(one);
      Tape tape;
      const Variable y = one.call(leaves);
      tape.backward(y, ones_like(y));
      for (const Variable& leaf : leaves) expected.push_back(leaf.grad().clone());
    }
    for (size_t i = 0; i < one.inputs.size(); ++i) {
      for (size_t c = 0; c < changes.size(); ++c) {
        SCOPED_TRACE(concat(one.name, ": input ", i, ", change ", c));
        const std::vector<Variable> leaves = leaves_for(one);
        Tape tape;
        const Variable y = one.call(leaves);
        changes[c](leaves[i]);
        if (one.read[i]) {
          expect_throw<UsageError>(one.name + ": backward: expected",
                                   [&] { tape.backward(y, ones_like(y)); });
          continue;
        }
        tape.backward(y, ones_like(y));
        for (size_t n = 0; n < leaves.size(); ++n)
          EXPECT_TRUE(std::ranges::equal(leaves[n].grad().values(), expected[n].values()));
      }
      SCOPED_TRACE(concat(one.name, ": another shape of input ", i));
      const std::vector<Variable> leaves = leaves_for(one);
      Tape tape;
      const Variable y = one.call(leaves);
      Variable(leaves[i]).set_value(fives({1, 1}));
      expect_throw<UsageError>("[1, 1], version 1 instead of 0", [&] { tape.backward(y, ones_like(y)); });
    }
  }
}

TEST(ChangedValues, AreRefusedWithNamesAndVersions) {
  Variable x = Variable::parameter(fives({2})), scale = Variable(fives({2}));
  const auto message = [&](Variable& changed) {
    Tape tape;
    const Variable loss = [&] {
      const NameScope scope("encoder");
      return sum(x * scale);
    }();
    changed.set_value(fives({2}));
    return message_of<UsageError>([&] { tape.backward(loss); });
  };
  EXPECT_EQ(
      message(scale),
      "encoder: multiply: backward: expected its input [2] as in the forward pass, found it changed since "
      "([2], version 1 instead of 0); change values before the forward pass or after backward()");
  Tape tape;
  Variable y = x * scale;
  const Variable loss = sum(y);
  y.mutable_value();
  expect_throw<UsageError>("multiply: backward: expected its result [2]", [&] { tape.backward(loss); });
  const Variable product = sum(x * scale);
  x.set_value(fives({2}));  // no gradient of the constant reads it
  tape.backward(product);
  EXPECT_EQ(x.grad().at(0), 5);
}

TEST(ChangedValues, AfterBackwardAreUsedByTheNextPass) {
  Variable x = Variable::parameter(fives({2}));
  Tape tape;
  for (const float value : {3.0f, 4.0f}) {
    x.set_value(Tensor::full({2}, value));
    x.clear_grad();
    tape.backward(sum(x * x));
    EXPECT_EQ(x.grad().at(0), 2 * value);
  }
}

TEST(ChangedValues, OfAnotherShapeNeedAClearedGradient) {
  Variable x = Variable::parameter(fives({2, 3}));
  const Variable part = x.columns(0, 1);
  x.add_grad(fives({2, 3}));
  x.set_value(fives({4, 2}));
  expect_throw<ShapeError>("[4, 2], found that of a former value [2, 3]", [&] { x.gradient_slot(); });
  expect_throw<ShapeError>("former value [2, 3]", [&] { part.gradient_slot(); });
  x.clear_grad();
  x.add_grad(fives({4, 2}));
  EXPECT_EQ(x.grad().at(3, 1), 5);
  expect_throw<ShapeError>("expected columns of the shape [4, 1]", [&] { part.gradient_slot(); });
}

TEST(ClearGrad, OfColumnsClearsThoseOfTheMatrix) {
  const Variable x = Variable::parameter(fives({2, 4}));
  const Variable left = x.columns(0, 2), right = x.columns(2, 2), middle = x.columns(1, 2);
  x.add_grad(fives({2, 4}));
  EXPECT_TRUE(right.has_grad());
  left.clear_grad();
  EXPECT_FALSE(left.has_grad());
  EXPECT_FALSE(left.grad().defined());
  EXPECT_EQ(middle.grad().clone().values(), (std::vector<float>{0, 5, 0, 5}));
  middle.clear_grad();
  middle.add_grad(fives({2, 2}));
  middle.clear_grad();
  EXPECT_EQ(x.grad().values(), (std::vector<float>{0, 0, 0, 5, 0, 0, 0, 5}));
  left.clear_grad();
  right.clear_grad();
  EXPECT_FALSE(x.has_grad()) << "all columns are cleared";
  left.add_grad(fives({2, 2}));
  EXPECT_EQ(x.grad().values(), (std::vector<float>{5, 5, 0, 0, 5, 5, 0, 0}));
  x.clear_grad();
  EXPECT_FALSE(left.has_grad()) << "cleared with the matrix";
}

TEST(Tape, AnEndedRecordingsValueIsNoInput) {
  const Variable x = Variable::parameter(fives({2}));
  std::optional<Tape> first(std::in_place);
  const Variable y = x * x;
  first.reset();
  Tape tape;
  const auto refused = [&](const Variable& value) {
    expect_throw<UsageError>("sum: expected inputs of this recording, found one of shape [2]",
                             [&] { sum(value); });
  };
  refused(y);
  EXPECT_FALSE(sum(y.value()).requires_grad()) << "a constant";
  const Variable z = x * x;
  tape.backward(sum(z));
  refused(z);
  EXPECT_EQ(x.grad().at(0), 10);
}

TEST(Tape, ABackwardFunctionThatThrowsEndsTheRecording) {
  const Variable x = Variable::parameter(fives({2}));
  Tape tape;
  const Variable y = Tape::record("mine", fives({2}), {x}, [](const Tensor&) { throw IoError("gone"); });
  const Variable loss = sum(y);
  EXPECT_THROW(tape.backward(loss), IoError);
  EXPECT_THROW(tape.backward(loss), UsageError) << "its records are gone";
  EXPECT_FALSE(x.has_grad());
  tape.backward(sum(x));
  EXPECT_EQ(x.grad().at(0), 1);
}

TEST(Tape, MayEndOnAnotherThread) {
  const Variable x = Variable::parameter(fives({2}));
  auto tape = std::make_unique<Tape>();
  const Variable y = sum(x);
  std::thread([&] {
    Tape own;
    tape.reset();
    EXPECT_TRUE(Tape::records()) << "this thread's own";
    const Variable leaf = Variable::parameter(fives({2}));
    own.backward(sum(leaf));
    EXPECT_TRUE(leaf.has_grad());
  }).join();
  EXPECT_FALSE(Tape::records());
  EXPECT_FALSE(sum(x).requires_grad());
  Tape next;
  next.backward(sum(x));
  EXPECT_TRUE(x.has_grad());
}

TEST(Tape, APauseMayOutliveItsTapeAndItsThreadsTurn) {
  const Variable x = Variable::parameter(fives({2}));
  auto tape = std::make_unique<Tape>();
  auto pause = std::make_unique<Tape::Pause>();
  tape.reset();
  pause.reset();
  EXPECT_FALSE(Tape::records());
  EXPECT_FALSE(sum(x).requires_grad());
  tape = std::make_unique<Tape>();
  pause = std::make_unique<Tape::Pause>();
  std::thread([&] {
    pause.reset();
    EXPECT_FALSE(Tape::records()) << "it ends the pause of the other thread's tape";
  }).join();
  EXPECT_TRUE(Tape::records());
  pause = std::make_unique<Tape::Pause>();
  auto inner = std::make_unique<Tape>();
  pause.reset();
  inner->backward(sum(x));
  inner.reset();
  EXPECT_TRUE(Tape::records()) << "the outer tape's turn again";
}

}  // namespace
