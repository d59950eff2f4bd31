// Linear maps with weights of every dtype, in both layouts.

#include "qkv/ops/linear.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <thread>

#include "qkv/base/parallel.h"
#include "qkv/ops/activation.h"
#include "qkv/ops/embedding.h"
#include "qkv/ops/general/weighted_sum.h"
#include "qkv/ops/linear_activate.h"
#include "qkv/ops/linear_cross_entropy.h"
#include "qkv/ops/quantize.h"
#include "tests/support/random.h"
#include "tests/support/scratch.h"

namespace {

using namespace qkv;
using namespace qkv::testing;

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && std::memcmp(a.as_bytes().data(), b.as_bytes().data(), a.bytes()) == 0;
}

// A frozen weight.
Weight weight_of(DType dtype, const Tensor& numbers) { return Weight(to_dtype({numbers}, dtype)); }

class LinearOf : public ::testing::TestWithParam<DType> {};

// sum_k dy[i][k] w[k][j] in double precision.
std::vector<double> product(const Tensor& dy, const std::vector<Tensor>& blocks) {
  const int64_t inputs = blocks[0].cols();
  std::vector<double> result;
  for (int64_t i = 0; i < dy.rows(); ++i) {
    for (int64_t j = 0; j < inputs; ++j) {
      double sum = 0;
      int64_t k = 0;
      for (const Tensor& block : blocks) {
        for (int64_t row = 0; row < block.rows(); ++row, ++k)
          sum += double{dy.data()[i * dy.cols() + k]} * block.data()[row * inputs + j];
      }
      result.push_back(sum);
    }
  }
  return result;
}

TEST_P(LinearOf, MatchesTheDequantizedWeights) {
  const Weight q = weight_of(GetParam(), random_tensor({24, 40}, 1)),
               k = weight_of(GetParam(), random_tensor({9, 40}, 2));
  const Variable bias = Variable::parameter(random_tensor({24}, 3));
  const LinearWeights weights({q, k}, {bias, Variable()});
  const Tensor x = random_tensor({7, 40}, 4);
  const Tensor wide_q = dequantize(q.value()), wide_k = dequantize(k.value());
  // Inputs of int8 products are rounded to 255 steps: an error of half a step per product, of either sign.
  const double tolerance = GetParam() == DType::i8 ? 40 * 0.5 * 2 / 255 * 0.25 : 1e-5;
  for (const WeightLayout layout : {WeightLayout::in_place, WeightLayout::packed}) {
    const Tensor y = linear(x, weights, layout).value();
    ASSERT_EQ(y.shape(), (Shape{7, 33}));
    for (int64_t i = 0; i < 7; ++i) {
      for (int64_t j = 0; j < 33; ++j) {
        const float* row = j < 24 ? wide_q.data() + j * 40 : wide_k.data() + (j - 24) * 40;
        double sum = j < 24 ? bias.value().data()[j] : 0.0f;
        for (int64_t l = 0; l < 40; ++l) sum += double{x.data()[i * 40 + l]} * row[l];
        EXPECT_NEAR(y.data()[i * 33 + j], sum, tolerance) << i << ", " << j;
      }
    }
  }
}

// dx = dy W, with the quantised W.
TEST_P(LinearOf, AFrozenWeightPropagatesGradients) {
  const Weight first = weight_of(GetParam(), random_tensor({24, 40}, 1)),
               second = weight_of(GetParam(), random_tensor({9, 40}, 2));
  const LinearWeights weights({first, second});
  const Tensor numbers = random_tensor({7, 40}, 4), dy = random_tensor({7, 33}, 5);
  const std::vector<double> expected = product(dy, {dequantize(first.value()), dequantize(second.value())});
  for (const WeightLayout layout : {WeightLayout::in_place, WeightLayout::packed}) {
    const Variable x = Variable::parameter(numbers);
    Tape tape;
    tape.backward(weighted_sum(linear(x, weights, layout), dy));
    ASSERT_TRUE(x.has_grad());
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(x.grad().values()[i], expected[i], 1e-5) << i;
    EXPECT_FALSE(first.variable().has_grad());
  }
}

// The finite difference of the loss itself. As inputs of int8 products are rounded, they are multiples of
// their rows' scales here, which two fixed elements determine, so that the difference is exact.
TEST_P(LinearOf, GradientMatchesFiniteDifferences) {
  constexpr int64_t kInputs = 16;
  const LinearWeights weights({weight_of(GetParam(), random_tensor({5, kInputs}, 1))});
  const Tensor dy = random_tensor({1, 5}, 5);
  Tensor numbers = Tensor::zeros({1, kInputs});
  for (int64_t i = 0; i < kInputs; ++i) numbers.data()[i] = static_cast<float>((37 * i) % 200 - 90) / 128;
  numbers.data()[0] = -100.0f / 128;
  numbers.data()[1] = 155.0f / 128;
  const auto loss = [&](int64_t i, float step) {
    Tensor moved = numbers.clone();
    moved.data()[i] += step;
    return double{weighted_sum(linear(moved, weights), dy).value().item()};
  };
  const Variable x = Variable::parameter(numbers);
  Tape tape;
  tape.backward(weighted_sum(linear(x, weights), dy));
  const Tape::Pause pause;
  constexpr float kStep = 8.0f / 128;
  for (int64_t i = 2; i < kInputs; ++i) {
    const double slope = (loss(i, kStep) - loss(i, -kStep)) / (2 * double{kStep});
    EXPECT_NEAR(x.grad().data()[i], slope, 2e-5) << i;
  }
}

TEST_P(LinearOf, CrossEntropyPropagatesGradients) {
  const Weight weight = weight_of(GetParam(), random_tensor({11, 20}, 1));
  const LinearWeights weights({weight}, {Variable(random_tensor({11}, 2))});
  const Tensor numbers = random_tensor({6, 20}, 3),
               labels = Tensor::from(std::vector<int32_t>{0, 3, 10, 3, 7, 1}, {6});
  const Variable x = Variable::parameter(numbers);
  {
    Tape tape;
    tape.backward(linear_cross_entropy(x, weights, labels, {.factor = 0.5f, .chunk_rows = 4}).loss);
  }
  // dlogits = 0.5 (softmax - onehot), for the logits of the forward pass.
  const Tensor logits = linear(numbers, weights).value();
  Tensor dlogits = Tensor::empty(logits.shape());
  for (int64_t i = 0; i < 6; ++i) {
    double sum = 0;
    for (int64_t j = 0; j < 11; ++j) sum += std::exp(double{logits.data()[i * 11 + j]});
    for (int64_t j = 0; j < 11; ++j) {
      const double p = std::exp(double{logits.data()[i * 11 + j]}) / sum;
      dlogits.data()[i * 11 + j] = static_cast<float>(0.5 * (p - (labels.data<int32_t>()[i] == j ? 1 : 0)));
    }
  }
  const std::vector<double> expected = product(dlogits, {dequantize(weight.value())});
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(x.grad().values()[i], expected[i], 1e-5) << i;
}

// In inference, the activation overwrites the product.
TEST_P(LinearOf, LinearActivateEqualsActivateOfLinear) {
  const LinearWeights weights({weight_of(GetParam(), random_tensor({70, 40}, 1))},
                              {Variable(random_tensor({70}, 2))});
  const Tensor x = random_tensor({9, 40}, 3);
  for (const auto activation :
       {kernels::Activation::relu, kernels::Activation::gelu_exact, kernels::Activation::silu}) {
    for (const WeightLayout layout : {WeightLayout::in_place, WeightLayout::packed}) {
      EXPECT_TRUE(same_bits(linear_activate(x, weights, activation, {}, layout).value(),
                            activate(linear(x, weights, layout), activation, {}).value()));
    }
  }
}

TEST_P(LinearOf, RowsAreIndependentAndThreadInvariant) {
  const LinearWeights weights({weight_of(GetParam(), random_tensor({130, 96}, 1))},
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

TEST_P(LinearOf, SeesAChangedWeight) {
  Variable values(to_dtype({random_tensor({5, 8}, 1)}, GetParam()).values),
      scales(to_dtype({random_tensor({5, 8}, 1)}, GetParam()).scales), bias(random_tensor({5}, 2));
  const LinearWeights weights({Weight(values, scales)}, {bias});
  const Tensor x = random_tensor({2, 8}, 3);
  const Tensor first = linear(x, weights).value();
  bias.set_value(Tensor::zeros({5}));
  const Tensor without = linear(x, weights).value();
  EXPECT_FALSE(same_bits(first, without));
  const QuantizedTensor other = to_dtype({random_tensor({5, 8}, 4)}, GetParam());
  values.set_value(other.values);
  scales.set_value(other.scales);
  const Tensor changed = linear(x, weights).value();
  EXPECT_FALSE(same_bits(changed, without));
}

TEST_P(LinearOf, AcceptsColumnsOfAWeight) {
  const QuantizedTensor whole = to_dtype({random_tensor({21, 100}, 1)}, GetParam());
  const QuantizedTensor view{whole.values.columns(17, 70), whole.scales};
  const LinearWeights views({Weight(view)});
  const LinearWeights copies({Weight(QuantizedTensor{view.values.clone(), view.scales})});
  for (const WeightLayout layout : {WeightLayout::in_place, WeightLayout::packed}) {
    for (const int64_t rows : {1, 5, 40}) {
      const Tensor x = random_tensor({rows, 70}, 2);
      EXPECT_TRUE(same_bits(linear(x, views, layout).value(), linear(x, copies, layout).value())) << rows;
    }
  }
  const Tensor ids = Tensor::from(std::vector<int32_t>{3, 20, 0}, {3});
  EXPECT_TRUE(same_bits(embedding(Weight(view), ids, {}, {}).value(),
                        embedding(copies.weights()[0], ids, {}, {}).value()));
}

TEST_P(LinearOf, WithoutInputsEqualsTheBias) {
  const QuantizedTensor none{Tensor::empty({3, 0}, GetParam()),
                             GetParam() == DType::i8 ? Tensor::full({3}, 1.0f) : Tensor()};
  const Tensor bias = random_tensor({3}, 1);
  const LinearWeights weights({Weight(none)}, {Variable(bias)});
  for (const int64_t rows : {1, 20}) {
    const Tensor y = linear(Tensor::empty({rows, 0}), weights).value();
    for (int64_t i = 0; i < rows * 3; ++i) EXPECT_EQ(y.data()[i], bias.data()[i % 3]);
  }
}

TEST_P(LinearOf, EmbeddingReadsTheQuantizedTable) {
  const Weight table = weight_of(GetParam(), random_tensor({11, 20}, 1));
  const Tensor ids = Tensor::from(std::vector<int32_t>{3, 10, 0, 3}, {4});
  const Tensor y = embedding(table, ids, {}, {.factor = 2}).value();
  const Tensor wide = dequantize(table.value());
  for (int64_t t = 0; t < 4; ++t) {
    for (int64_t c = 0; c < 20; ++c)
      EXPECT_EQ(y.data()[t * 20 + c], 2 * wide.data()[ids.data<int32_t>()[t] * 20 + c]);
  }
}

// A frozen table in training: dropout applies to its rows in any dtype, and positions are trained.
TEST_P(LinearOf, DropoutAppliesToAFrozenTable) {
  const QuantizedTensor value = to_dtype({random_tensor({11, 40}, 1)}, GetParam());
  const Tensor ids = Tensor::from(std::vector<int32_t>{3, 10, 0, 3}, {4});
  const Variable positions = Variable::parameter(random_tensor({4, 40}, 2));
  const EmbeddingOptions options{.position = Tensor::from(std::vector<int32_t>{0, 1, 2, 3}, {4}),
                                 .dropout = {.rate = 0.5f, .seed = 7}};
  Tape tape;
  const Variable y = embedding(Weight(value), ids, positions, options);
  EXPECT_TRUE(same_bits(y.value(), embedding(Variable(dequantize(value)), ids, positions, options).value()));
  tape.backward(weighted_sum(y, random_tensor({4, 40}, 3)));
  EXPECT_TRUE(positions.has_grad());
}

TEST_P(LinearOf, OnlyF32IsTrainable) {
  const QuantizedTensor value = to_dtype({random_tensor({11, 20}, 1)}, GetParam());
  const Weight weight(Variable::parameter(value.values), Variable(value.scales));
  const LinearWeights weights({weight});
  const Tensor x = random_tensor({2, 20}, 2);
  const Tensor ids = Tensor::from(std::vector<int32_t>{3, 10}, {2});
  const auto train = [&] {
    Tape tape;
    tape.backward(weighted_sum(linear(embedding(weight, ids, {}, {}), weights), random_tensor({2, 11}, 3)));
  };
  if (GetParam() == DType::f32) {
    train();
    EXPECT_TRUE(weight.variable().has_grad());
    return;
  }
  linear(x, weights);  // without a tape nothing is trained
  const std::string message = message_of<UsageError>([&] {
    Tape tape;
    linear(x, weights);
  });
  EXPECT_NE(message.find("only f32 weights can be trained"), std::string::npos) << message;
  EXPECT_NE(message.find("[11, 20]"), std::string::npos) << message;
  EXPECT_NE(message_of<UsageError>(train).find("only an f32 table can be trained"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(All, LinearOf, ::testing::ValuesIn(kWeightDTypes),
                         [](const auto& dtype) { return std::string(name_of(dtype.param)); });

// The backward pass keeps what it needs alive, whatever happens to the objects passed to the forward pass.
TEST(Linear, WeightsMayMoveOrBeDestroyedBeforeBackward) {
  const Tensor numbers = random_tensor({6, 5}, 1), x = random_tensor({3, 5}, 2),
               dy = random_tensor({3, 6}, 3);
  const Tensor labels = Tensor::from(std::vector<int32_t>{0, 5, 2}, {3});
  const auto gradients = [&](const auto& run) {
    const Variable w = Variable::parameter(numbers.clone()), b = Variable::parameter(random_tensor({6}, 4));
    Tape tape;
    const Variable loss = run(w, b);
    tape.backward(loss);
    return std::pair{w.grad().clone(), b.grad().clone()};
  };
  const auto expect_same = [&](const auto& found, const auto& expected) {
    EXPECT_TRUE(same_bits(found.first, expected.first));
    EXPECT_TRUE(same_bits(found.second, expected.second));
  };
  std::optional<LinearWeights> kept;
  const auto stay = [&](const Variable& w, const Variable& b) -> const LinearWeights& {
    return kept.emplace(std::vector<Weight>{w}, std::vector{b});
  };
  expect_same(
      gradients(
          [&](const auto& w, const auto& b) { return weighted_sum(linear(x, LinearWeights({w}, {b})), dy); }),
      gradients([&](const auto& w, const auto& b) { return weighted_sum(linear(x, stay(w, b)), dy); }));
  expect_same(gradients([&](const auto& w, const auto& b) {
                auto from = std::make_unique<LinearWeights>(std::vector<Weight>{w}, std::vector{b});
                const Variable y = linear_activate(x, *from, kernels::Activation::relu);
                const LinearWeights to = std::move(*from);
                from.reset();
                return weighted_sum(y, dy);
              }),
              gradients([&](const auto& w, const auto& b) {
                return weighted_sum(linear_activate(x, stay(w, b), kernels::Activation::relu), dy);
              }));
  expect_same(gradients([&](const auto& w, const auto& b) {
                return linear_cross_entropy(x, LinearWeights({w}, {b}), labels, {}).loss;
              }),
              gradients([&](const auto& w, const auto& b) {
                return linear_cross_entropy(x, stay(w, b), labels, {}).loss;
              }));
}

// The caller selects the layout, with and without a tape.
TEST(Linear, ATapeDoesNotChangeTheProduct) {
  const LinearWeights weights({Variable::parameter(random_tensor({300, 257}, 1))});
  const Tensor x = random_tensor({33, 257}, 2);
  Tensor outside[2], inside[2];
  const WeightLayout layouts[] = {WeightLayout::in_place, WeightLayout::packed};
  for (size_t i = 0; i < 2; ++i) outside[i] = linear(x, weights, layouts[i]).value();
  {
    Tape tape;
    for (size_t i = 0; i < 2; ++i) inside[i] = linear(x, weights, layouts[i]).value();
  }
  EXPECT_TRUE(same_bits(outside[0], inside[0]));
  EXPECT_TRUE(same_bits(outside[1], inside[1]));
  EXPECT_FALSE(same_bits(outside[0], outside[1])) << "the two layouts are one";
}

TEST(Linear, RejectsMismatchedShapes) {
  const Variable w(random_tensor({4, 8}, 1));
  const Tensor x = random_tensor({2, 8}, 2);
  const auto refused = [&](const std::vector<Weight>& weights, const std::vector<Variable>& biases,
                           const Variable& input) {
    const LinearWeights all(weights, biases);
    const std::string message = message_of<ShapeError>([&] { linear(input, all); });
    EXPECT_EQ(message, message_of<ShapeError>([&] {
                         const Tensor labels = Tensor::zeros({2}, DType::i32);
                         linear_cross_entropy(input, all, labels, {});
                       }).replace(0, std::string("cross_entropy").size(), "linear"));
    return message;
  };
  const auto expect_mentions = [](const std::string& message, const std::vector<std::string>& parts) {
    for (const std::string& part : parts) EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  expect_mentions(refused({w}, {}, random_tensor({2, 7}, 3)), {"[2, 7]", "expected f32 [tokens, 8]"});
  expect_mentions(refused({w}, {}, Tensor::zeros({2, 8}, DType::i32)), {"i32 [2, 8]"});
  expect_mentions(refused({w}, {}, {}), {"x is undefined"});
  expect_mentions(refused({w}, {Variable(random_tensor({3}, 3))}, x), {"bias of 4 elements", "[3]"});
  expect_mentions(refused({w, w}, {Variable(), Variable(random_tensor({5}, 3))}, x), {"bias of 4", "[5]"});
  expect_mentions(refused({w}, {Variable::parameter()}, x), {"bias of 4 elements", "none"});
  expect_mentions(refused({w, Variable(random_tensor({4, 9}, 3))}, {}, x), {"one width", "[4, 8]", "[4, 9]"});
  expect_mentions(refused({Variable::parameter()}, {}, x), {"weight with values"});
  expect_mentions(refused({Variable(random_tensor({4}, 3))}, {}, x), {"matrix", "[4]"});
  expect_mentions(refused({weight_of(DType::bf16, w.value()), weight_of(DType::i8, w.value())}, {}, x),
                  {"all or none of i8", "bf16 [4, 8]", "i8 [4, 8]"});
  expect_mentions(refused({Variable(weight_of(DType::i8, w.value()).values())}, {}, x), {"scales [4]"});
}

TEST(Linear, RejectsInvalidWeights) {
  EXPECT_NE(message_of<UsageError>([] { LinearWeights({}); }).find("at least one weight"), std::string::npos);
  EXPECT_NE(message_of<UsageError>([] { LinearWeights({Weight()}); }).find("undefined"), std::string::npos);
  const Variable w(random_tensor({4, 8}, 1));
  EXPECT_NE(message_of<UsageError>([&] {
              LinearWeights({w, w}, {Variable()});
            }).find("found 1"),
            std::string::npos);
  for (const int64_t rows : {0, -3}) {
    EXPECT_NE(message_of<UsageError>([&] {
                linear_cross_entropy(random_tensor({2, 8}, 2), LinearWeights({w}),
                                     Tensor::zeros({2}, DType::i32), {.chunk_rows = rows});
              }).find("chunk_rows"),
              std::string::npos);
  }
}

// Columns of a wider matrix as the input of a loss: their gradient has gaps between rows.
TEST(Linear, CrossEntropyOfColumns) {
  const LinearWeights weights({Variable(random_tensor({6, 5}, 1))});
  const Tensor labels = Tensor::from(std::vector<int32_t>{0, 5, 2}, {3}), numbers = random_tensor({3, 9}, 2);
  const Variable whole = Variable::parameter(numbers),
                 alone = Variable::parameter(numbers.columns(2, 5).clone());
  {
    Tape tape;
    tape.backward(linear_cross_entropy(whole.columns(2, 5), weights, labels, {}).loss);
  }
  {
    Tape tape;
    tape.backward(linear_cross_entropy(alone, weights, labels, {}).loss);
  }
  EXPECT_TRUE(same_bits(whole.grad().columns(2, 5).clone(), alone.grad()));
  EXPECT_EQ(whole.grad().data()[0], 0.0f);
}

}  // namespace
