// Operations on values of any shape: numbers, gradients, errors.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "qkv/base/parallel.h"
#include "qkv/ops/embedding.h"
#include "qkv/ops/general/arithmetic.h"
#include "qkv/ops/general/losses.h"
#include "qkv/ops/general/matmul.h"
#include "qkv/ops/general/pooling.h"
#include "qkv/ops/general/reduce.h"
#include "qkv/ops/general/reshape.h"
#include "qkv/ops/general/slice.h"
#include "qkv/ops/general/softmax.h"
#include "qkv/ops/linear_cross_entropy.h"
#include "qkv/ops/rotary.h"
#include "qkv/tensor/ragged.h"
#include "tests/ops/gradient_check.h"
#include "tests/support/devices.h"
#include "tests/support/scratch.h"

namespace {

using namespace qkv;
using namespace qkv::testing;

Tensor tensor(const std::vector<float>& values, const Shape& shape) { return Tensor::from(values, shape); }

void expect_values(const Variable& found, const Shape& shape, const std::vector<double>& expected,
                   double tolerance = 1e-6) {
  ASSERT_EQ(found.shape(), shape);
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(found.value().values()[i], expected[i], tolerance) << "element " << i;
  }
}

// Away from 0, for divisors.
Tensor divisors(const Shape& shape, uint64_t seed) {
  Tensor x = random_tensor(shape, seed);
  for (float& value : x.values()) value += value > 0 ? 1.0f : -1.0f;
  return x;
}

TEST(Arithmetic, Broadcasts) {
  const Variable x = tensor({1, 2, 3, 4, 5, 6}, {2, 3}), row = tensor({10, 20, 30}, {3}),
                 column = tensor({2, 4}, {2, 1});
  expect_values(x + row, {2, 3}, {11, 22, 33, 14, 25, 36});
  expect_values(row - x, {2, 3}, {9, 18, 27, 6, 15, 24});
  expect_values(x * column, {2, 3}, {2, 4, 6, 16, 20, 24});
  expect_values(x / column, {2, 3}, {0.5, 1, 1.5, 1, 1.25, 1.5});
  expect_values(column + row, {2, 3}, {12, 22, 32, 14, 24, 34});
  expect_values(1.0f - x * 2.0f, {2, 3}, {-1, -3, -5, -7, -9, -11});
  expect_values(12.0f / x + (-x), {2, 3}, {11, 4, 1, -1, -2.6, -4});
  expect_values(tensor({3}, {1}) + tensor({4}, {}), {1}, {7});
  // Three axes with one in the middle, and columns of a wider matrix.
  expect_values(tensor({1, 2, 3, 4}, {2, 1, 2}) * tensor({1, 10}, {2, 1}), {2, 2, 2},
                {1, 2, 10, 20, 3, 4, 30, 40});
  expect_values(Variable(x.value().columns(1, 2)) * 2.0f, {2, 2}, {4, 6, 10, 12});
  EXPECT_EQ((Tensor::zeros({0, 3}) + row).shape(), (Shape{0, 3}));
  EXPECT_EQ(message_of<Error>([&] {
              x + column* tensor({1, 2}, {2});
            }),
            "add: shapes [2, 3] and [2, 2] differ in axis -1");
  EXPECT_EQ(message_of<Error>([&] {
              x* Tensor::zeros({2, 3}, DType::i32);
            }),
            "multiply: expected f32, found i32 [2, 3]");
}

TEST(Arithmetic, Gradients) {
  const std::vector<std::pair<Shape, Shape>> pairs{
      {{2, 3}, {2, 3}}, {{4, 3}, {3}}, {{3, 1}, {1, 5}},          {{2, 3, 4}, {3, 1}},
      {{1}, {2, 3}},    {{}, {4}},     {{2, 1, 3, 1}, {4, 1, 5}}, {{300, 2}, {2}}};
  for (const auto& [x, y] : pairs) {
    SCOPED_TRACE(concat(x, " and ", y));
    const std::vector<Tensor> inputs{random_tensor(x, 1), divisors(y, 2)};
    check_gradients({.function = [](const auto& in) { return in[0] + in[1]; }, .inputs = inputs});
    check_gradients({.function = [](const auto& in) { return in[0] - in[1]; }, .inputs = inputs});
    check_gradients({.function = [](const auto& in) { return in[0] * in[1]; }, .inputs = inputs});
    check_gradients(
        {.function = [](const auto& in) { return in[0] / in[1]; }, .inputs = inputs, .tolerance = 1e-3});
  }
  check_gradients(
      {.function = [](const auto& in) { return 2.0f - in[0] * in[0] / 3.0f + in[0].columns(1, 1); },
       .inputs = {random_tensor({4, 3}, 1)}});
}

TEST(Reduce, SumsAndMeans) {
  const Variable x = tensor({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, {2, 3, 2});
  expect_values(sum(x), {1}, {78});
  expect_values(mean(x), {1}, {6.5});
  expect_values(sum(x, 0), {3, 2}, {8, 10, 12, 14, 16, 18});
  expect_values(sum(x, 1), {2, 2}, {9, 12, 27, 30});
  expect_values(mean(x, -1), {2, 3}, {1.5, 3.5, 5.5, 7.5, 9.5, 11.5});
  expect_values(mean(x, 1, KeepAxis::yes), {2, 1, 2}, {3, 4, 9, 10});
  expect_values(sum(Tensor::zeros({0, 2}), 0), {2}, {0, 0});
  EXPECT_EQ(message_of<Error>([&] { sum(x, 3); }), "axis 3 of a tensor of shape [2, 3, 2]");
  EXPECT_EQ(message_of<Error>([&] {
              mean(Tensor::zeros({0, 2}), 0);
            }),
            "mean: expected elements along axis 0, found shape [0, 2]");
  EXPECT_EQ(message_of<Error>([&] {
              mean(Tensor::zeros({0, 2}));
            }),
            "mean: expected elements, found shape [0, 2]");
}

TEST(Reduce, SumsOfNoElementsAreZero) {
  constexpr int64_t kLong = int64_t{1} << 59;
  const Variable x = Variable::parameter(Tensor::zeros({kLong, 0}));
  EXPECT_EQ(sum(x).value().item(), 0);
  EXPECT_EQ(sum(x, 0).shape(), (Shape{0}));
  EXPECT_EQ(sum(reshape(x, {0, kLong}), 1).shape(), (Shape{0}));
  EXPECT_TRUE(std::ranges::equal(sum(Tensor::zeros({2, 0, 3}), 1).value().values(), std::vector<float>(6)));
  Tape tape;
  tape.backward(sum(x, 0), Tensor::zeros({0}));
  EXPECT_EQ(x.grad().shape(), x.shape());
}

TEST(Reduce, Gradients) {
  for (const int axis : {0, 1, -1}) {
    check_gradients({.function = [=](const auto& in) { return sum(in[0], axis); },
                     .inputs = {random_tensor({3, 4, 5}, 1)}});
    check_gradients({.function = [=](const auto& in) { return mean(in[0], axis, KeepAxis::yes); },
                     .inputs = {random_tensor({3, 4, 5}, 1)}});
  }
  check_gradients({.function = [](const auto& in) { return mean(in[0]) + sum(in[0].columns(0, 2)); },
                   .inputs = {random_tensor({3, 5}, 1)}});
}

// A sum does not depend on the number of threads, and is rounded once.
TEST(Reduce, SumsAreExactAndThreadInvariant) {
  const Variable x = random_tensor({70000, 3}, 5);
  double expected = 0;
  for (const float value : x.value().values()) expected += double{value};
  const int before = threads();
  set_threads(1);
  const float one = sum(x).value().item();
  const Tensor columns = sum(x, 0).value();
  set_threads(3);
  EXPECT_EQ(sum(x).value().item(), one);
  const Tensor again = sum(x, 0).value();
  set_threads(before);
  EXPECT_EQ(one, static_cast<float>(expected));
  for (int64_t c = 0; c < 3; ++c) EXPECT_EQ(again.at(c), columns.at(c));
}

TEST(Softmax, OverTheInnermostAxis) {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  const Variable x = tensor({0, 1, 2, 1000, 1000, kNever}, {2, 1, 3});
  const double sum_0 = 1 + std::exp(1) + std::exp(2);
  expect_values(softmax(x), {2, 1, 3}, {1 / sum_0, std::exp(1) / sum_0, std::exp(2) / sum_0, 0.5, 0.5, 0});
  expect_values(log_softmax(x), {2, 1, 3},
                {-std::log(sum_0), 1 - std::log(sum_0), 2 - std::log(sum_0), -std::log(2), -std::log(2)});
  EXPECT_EQ(log_softmax(x).value().at(1, 0, 2), kNever);
  const std::vector<Tensor> inputs{random_tensor({3, 2, 7}, 1)};
  check_gradients({.function = [](const auto& in) { return softmax(in[0]); }, .inputs = inputs});
  check_gradients({.function = [](const auto& in) { return log_softmax(in[0] * 3.0f); }, .inputs = inputs});
}

TEST(Matmul, MultipliesMatricesAndBatches) {
  const Variable x = tensor({1, 2, 3, 4, 5, 6}, {2, 3}), y = tensor({1, 0, 2, -1, 0, 1}, {3, 2});
  expect_values(matmul(x, y), {2, 2}, {5, 1, 14, 1});
  expect_values(matmul(reshape(x, {2, 1, 3}),
                       reshape(tensor({1, 0, 2, -1, 0, 1, 1, 1, 1, 1, 1, 1}, {2, 3, 2}), {2, 3, 2})),
                {2, 1, 2}, {5, 1, 15, 15});
  expect_values(matmul(reshape(x, {2, 1, 3}), y), {2, 1, 2}, {5, 1, 14, 1});
  expect_values(transpose(x), {3, 2}, {1, 4, 2, 5, 3, 6});
  expect_values(matmul(Tensor::zeros({2, 0}), Tensor::zeros({0, 3})), {2, 3}, {0, 0, 0, 0, 0, 0});
  EXPECT_EQ(message_of<Error>([&] { matmul(x, x); }),
            "matmul: expected [..., m, k] and [..., k, n], found [2, 3] and [2, 3]");
  EXPECT_EQ(message_of<Error>([&] {
              matmul(random_tensor({2, 2, 3}, 1), random_tensor({3, 3, 2}, 1));
            }),
            "matmul: expected [..., m, k] and [..., k, n], found [2, 2, 3] and [3, 3, 2]");
  EXPECT_THROW(transpose(random_tensor({3}, 1)), ShapeError);
}

TEST(Matmul, Gradients) {
  const auto product = [](const auto& in) { return matmul(in[0], in[1]); };
  check_gradients({.function = product, .inputs = {random_tensor({4, 5}, 1), random_tensor({5, 3}, 2)}});
  check_gradients({.function = product, .inputs = {random_tensor({4, 4}, 1), random_tensor({4, 4}, 2)}});
  check_gradients(
      {.function = product, .inputs = {random_tensor({2, 3, 4, 5}, 1), random_tensor({2, 3, 5, 2}, 2)}});
  check_gradients({.function = product, .inputs = {random_tensor({3, 4, 5}, 1), random_tensor({5, 2}, 2)}});
  check_gradients(
      {.function = [](const auto& in) { return transpose(in[0]); }, .inputs = {random_tensor({2, 3, 4}, 1)}});
  // Attention, by hand.
  check_gradients(
      {.function =
           [](const auto& in) { return matmul(softmax(matmul(in[0], transpose(in[1])) * 0.5f), in[2]); },
       .inputs = {random_tensor({2, 3, 4}, 1), random_tensor({2, 5, 4}, 2), random_tensor({2, 5, 3}, 3)}});
}

TEST(Slice, TakesAndJoinsParts) {
  const Variable x = tensor({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, {2, 3, 2});
  expect_values(slice(x, 1, 1, 2), {2, 2, 2}, {3, 4, 5, 6, 9, 10, 11, 12});
  expect_values(concatenate({slice(x, 1, 2, 1), slice(x, 1, 0, 2)}, 1), {2, 3, 2},
                {5, 6, 1, 2, 3, 4, 11, 12, 7, 8, 9, 10});
  expect_values(concatenate({x, x}, 0), {4, 3, 2},
                {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  expect_values(concatenate({slice(x, -1, 1, 1), x}, -1), {2, 3, 3},
                {2, 1, 2, 4, 3, 4, 6, 5, 6, 8, 7, 8, 10, 9, 10, 12, 11, 12});
  const Tensor rows = Tensor::from(std::vector<int32_t>{1, 0, 1}, {3});
  expect_values(gather(tensor({1, 2, 3, 4}, {2, 2}), rows), {3, 2}, {3, 4, 1, 2, 3, 4});
  expect_values(gather(tensor({7, 8}, {2}), rows), {3}, {8, 7, 8});
  EXPECT_EQ(gather(x, rows).shape(), (Shape{3, 3, 2}));
  EXPECT_EQ(message_of<Error>([&] { gather(x, Tensor::from(std::vector<int32_t>{2}, {1})); }),
            "gather: row 2 is outside of x [2, 3, 2]");
  EXPECT_EQ(message_of<Error>([&] {
              concatenate({x, slice(x, 0, 0, 1)}, 1);
            }),
            "concatenate: shapes [2, 3, 2] and [1, 3, 2] differ beside axis 1");
  EXPECT_EQ(message_of<Error>([&] { concatenate({}, 1); }),
            "concatenate: expected at least one part, found none");
  EXPECT_EQ(message_of<Error>([&] { slice(x, 1, 2, 2); }),
            "slice: 2 elements from 2 of axis 1 of shape [2, 3, 2]");
}

TEST(Slice, Gradients) {
  for (const int axis : {0, 1, 2}) {
    check_gradients({.function = [=](const auto& in) { return slice(in[0], axis, 1, 2); },
                     .inputs = {random_tensor({3, 4, 3}, 1)}});
    check_gradients({.function =
                         [=](const auto& in) {
                           return concatenate({in[0], in[1], in[0]}, axis);
                         },
                     .inputs = {random_tensor({2, 3, 2}, 1), random_tensor({2, 3, 2}, 2)}});
  }
  const Tensor rows = Tensor::from(std::vector<int32_t>{2, 0, 2, 2}, {4});
  check_gradients({.function = [=](const auto& in) { return gather(in[0], rows); },
                   .inputs = {random_tensor({3, 2, 2}, 1)}});
}

TEST(Pooling, MeansAndLargest) {
  const Offsets offsets({0, 2, 2, 5});
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  const Variable x = tensor({1, -2, 3, -6, 5, 9, 5, 7, -1, 8}, {5, 2});
  expect_values(segment_mean(x, offsets), {3, 2}, {2, -4, 0, 0, 3, 8});
  expect_values(segment_max(x, offsets), {3, 2}, {3, -2, 0, 0, 5, 9});
  const Variable with_nan = tensor({1, kNaN, 3, 4}, {4, 1});
  EXPECT_TRUE(std::isnan(segment_max(with_nan, Offsets({0, 4})).value().item()));
  EXPECT_EQ(message_of<Error>([&] {
              segment_mean(x, Offsets({0, 2, 4}));
            }),
            "segment_mean: expected [4, features], as the offsets end there, found [5, 2]");
  check_gradients({.function = [=](const auto& in) { return segment_mean(in[0], offsets); },
                   .inputs = {random_tensor({5, 3}, 1)}});
  // Separated by more than the step of the differences.
  Tensor apart = Tensor::empty({5, 130});
  for (int64_t i = 0; i < apart.numel(); ++i)
    apart.values()[static_cast<size_t>(i)] = 0.25f * static_cast<float>(i * 7 % 11);
  check_gradients(
      {.function = [=](const auto& in) { return segment_max(in[0], offsets); }, .inputs = {apart}});
  // For ties, the first gets the gradient.
  const Variable equal = Variable::parameter(tensor({2, 2, 1}, {3, 1}));
  Tape tape;
  tape.backward(sum(segment_max(equal, Offsets({0, 3}))));
  expect_values(equal.grad(), {3, 1}, {1, 0, 0});
}

// The losses in double precision.
std::vector<double> losses_of(const Tensor& logits, const std::vector<int32_t>& labels,
                              const ClassLossOptions& options) {
  std::vector<double> losses;
  const int64_t classes = logits.cols();
  for (int64_t row = 0; row < logits.rows(); ++row) {
    double sum = 0, loss = 0;
    for (int64_t c = 0; c < classes; ++c) sum += std::exp(double{logits.at(row, c)});
    for (int64_t c = 0; c < classes; ++c) {
      const double weight = options.class_weights.defined() ? double{options.class_weights.at(c)} : 1.0;
      const double smoothing = options.label_smoothing;
      const double target = smoothing / static_cast<double>(classes) +
                            (c == labels[static_cast<size_t>(row)] ? 1 - smoothing : 0);
      loss -= weight * target * (logits.at(row, c) - std::log(sum));
    }
    losses.push_back(labels[static_cast<size_t>(row)] == options.ignored_label ? 0 : loss);
  }
  return losses;
}

TEST(CrossEntropy, MatchesItsDefinition) {
  const std::vector<int32_t> labels{2, -100, 0, 4, 2, -100};
  const Tensor logits = random_tensor({6, 5}, 1);
  Tensor weights = divisors({5}, 2);
  for (float& weight : weights.values()) weight = std::abs(weight);
  const Tensor targets = Tensor::from(labels, {6});
  for (const bool weighted : {false, true}) {
    for (const float smoothing : {0.0f, 0.2f, 1.0f}) {
      ClassLossOptions options{.class_weights = weighted ? weights : Tensor(), .label_smoothing = smoothing};
      const std::vector<double> expected = losses_of(logits, labels, options);
      double sum = 0, count = 0;
      for (const double loss : expected) sum += loss;
      for (const int32_t label : labels) {
        if (label >= 0) count += weighted ? double{weights.at(label)} : 1.0;
      }
      for (const auto& [reduction, wanted] : std::vector<std::pair<Reduction, std::vector<double>>>{
               {Reduction::none, expected}, {Reduction::sum, {sum}}, {Reduction::mean, {sum / count}}}) {
        options.reduction = reduction;
        const Shape shape{static_cast<int64_t>(wanted.size())};
        expect_values(cross_entropy(logits, targets, options), shape, wanted, 2e-6);
        check_gradients({.function = [=](const auto& in) { return cross_entropy(in[0], targets, options); },
                         .inputs = {logits}});
      }
    }
  }
  // Logits with more axes, and another ignored label.
  const Tensor all =
      cross_entropy(logits.reshape({2, 3, 5}), Tensor::from(std::vector<int32_t>{2, 4, 0, 4, 2, 4}, {2, 3}),
                    {.ignored_label = 4, .reduction = Reduction::none})
          .value();
  EXPECT_EQ(all.shape(), (Shape{2, 3}));
  EXPECT_EQ(all.at(0, 1), 0.0f);
  EXPECT_GT(all.at(0, 2), 0.0f);
}

TEST(CrossEntropy, LargeLogitsAndIgnoredLabels) {
  const Variable x = Variable::parameter(tensor({1000, 0, -1000, 3e38f, -3e38f, 0}, {2, 3}));
  const auto losses =
      cross_entropy(x, Tensor::from(std::vector<int32_t>{1, 0}, {2}), {.reduction = Reduction::none});
  expect_values(losses, {2}, {1000, 0});
  Tape tape;
  const Variable none = cross_entropy(x, Tensor::from(std::vector<int32_t>{-100, -100}, {2}));
  expect_values(none, {1}, {0});
  tape.backward(none);
  expect_values(x.grad(), {2, 3}, {0, 0, 0, 0, 0, 0});
}

TEST(CrossEntropy, Errors) {
  const Tensor logits = random_tensor({2, 3}, 1), labels = Tensor::from(std::vector<int32_t>{1, 3}, {2});
  EXPECT_EQ(message_of<Error>([&] { cross_entropy(logits, labels); }),
            "cross_entropy: label 3 is not one of 3 classes");
  EXPECT_EQ(message_of<Error>([&] { cross_entropy(logits, Tensor::zeros({3}, DType::i32)); }),
            "cross_entropy: expected logits [..., classes] and labels [...], found [2, 3] and i32 [3]");
  EXPECT_EQ(message_of<Error>([&] { cross_entropy(logits, labels, {.class_weights = Tensor::zeros({2})}); }),
            "cross_entropy: expected class_weights f32 [3], found f32 [2]");
  EXPECT_EQ(message_of<Error>([&] { cross_entropy(logits, labels, {.label_smoothing = 2}); }),
            "cross_entropy: expected label_smoothing from 0 to 1, found 2");
}

TEST(Mse, SquaresDifferences) {
  const Tensor x = tensor({1, 2, 3, 4}, {2, 2}), y = tensor({1, 0, 6, 4}, {2, 2});
  expect_values(mse(x, y), {1}, {13.0 / 4});
  expect_values(mse(x, y, Reduction::sum), {1}, {13});
  expect_values(mse(x, y, Reduction::none), {2, 2}, {0, 4, 9, 0});
  EXPECT_EQ(message_of<Error>([&] { mse(x, tensor({1, 2}, {2})); }), "mse: shapes differ: [2, 2] and [2]");
  check_gradients({.function = [](const auto& in) { return mse(in[0], in[1]); },
                   .inputs = {random_tensor({3, 4}, 1), random_tensor({3, 4}, 2)}});
  // Two losses combined.
  check_gradients({.function = [](const auto& in) { return mse(in[0], in[1]) + 0.3f * mean(in[0] * in[0]); },
                   .inputs = {random_tensor({3, 4}, 1), random_tensor({3, 4}, 2)}});
}

// Values and gradients.
TEST(GeneralOps, AgreeOnAllDevices) {
  const Offsets offsets({0, 2, 2, 4});
  const Tensor labels = Tensor::from(std::vector<int32_t>{2, -100, 0, 4}, {4}), weights = divisors({5}, 4);
  const Tensor rows = Tensor::from(std::vector<int32_t>{3, 0, 3}, {3});
  using Function = std::function<Variable(const std::vector<Variable>&)>;
  const std::vector<std::pair<const char*, Function>> functions{
      {"arithmetic", [](const auto& in) { return 2.0f - in[0] * in[1] / (in[1] * in[1] + 1.0f); }},
      {"sums", [](const auto& in) { return sum(in[0], 0) + mean(in[0], 1, KeepAxis::yes) + mean(in[0]); }},
      {"softmax", [](const auto& in) { return softmax(in[0]) + log_softmax(in[0] * 2.0f); }},
      {"matmul", [](const auto& in) { return matmul(transpose(in[0]), in[0]); }},
      {"slices",
       [](const auto& in) {
         return concatenate({slice(in[0], 0, 1, 2), slice(in[0], 0, 0, 3)}, 0);
       }},
      {"gather", [=](const auto& in) { return gather(in[0], rows); }},
      {"pooling", [=](const auto& in) { return segment_mean(in[0], offsets) + segment_max(in[0], offsets); }},
      {"cross_entropy",
       [=](const auto& in) {
         return cross_entropy(in[0], labels, {.class_weights = weights, .label_smoothing = 0.2f});
       }},
      {"mse", [](const auto& in) { return mse(in[0].columns(0, 3), in[0].columns(2, 3), Reduction::sum); }},
  };
  const std::vector<Tensor> inputs{random_tensor({4, 5}, 1), random_tensor({5}, 2)};
  for (const auto& [name, function] : functions) {
    SCOPED_TRACE(name);
    const auto run = [&, &f = function](Device device) {
      std::vector<Variable> leaves;
      for (const Tensor& input : inputs)
        leaves.push_back(Variable::parameter(from_host(input.clone(), device)));
      Tape tape;
      const Variable y = f(leaves);
      tape.backward(sum(y * from_host(random_tensor(y.shape(), 9), device)));
      std::vector<Tensor> results{to_host(y.value())};
      for (const Variable& leaf : leaves) {
        if (leaf.has_grad()) results.push_back(to_host(leaf.grad()));
      }
      return results;
    };
    const std::vector<Tensor> expected = run(Device::cpu);
    qkv::testing::for_each_device([&](Device device) {
      const std::vector<Tensor> found = run(device);
      ASSERT_EQ(found.size(), expected.size());
      for (size_t n = 0; n < found.size(); ++n) {
        ASSERT_EQ(found[n].shape(), expected[n].shape());
        for (size_t i = 0; i < found[n].values().size(); ++i) {
          ASSERT_NEAR(found[n].values()[i], expected[n].values()[i], 2e-6)
              << "tensor " << n << ", element " << i;
        }
      }
    });
  }
}

TEST(Ids, Of64BitsGiveTheBitsOf32AndAreRefusedBeyond) {
  const Tensor x = random_tensor({3, 4}, 1), positions = random_tensor({3, 4}, 2);
  const std::vector<std::pair<std::string, std::function<Tensor(const Tensor&)>>> functions{
      {"gather: rows", [&](const Tensor& ids) { return gather(x, ids).value(); }},
      {"embedding: ids", [&](const Tensor& ids) { return embedding(x, ids, {}, {}).value(); }},
      {"embedding: positions",
       [&](const Tensor& ids) {
         return embedding(x, Tensor::zeros({3}, DType::i32), positions, {.position = ids}).value();
       }},
      {"cross_entropy: labels", [&](const Tensor& ids) { return cross_entropy(x, ids).value(); }},
      {"cross_entropy: labels",
       [&](const Tensor& ids) {
         return linear_cross_entropy(x, LinearWeights({random_tensor({5, 4}, 3)}), ids, {}).loss.value();
       }},
      {"rotary: positions",
       [&](const Tensor& ids) {
         const RotaryTable table{positions.columns(0, 2).clone(), positions.columns(2, 2).clone()};
         return rotary(x, 1, table, ids).value();
       }},
  };
  for (const auto& [name, function] : functions) {
    const Tensor found = function(Ragged::from<int64_t>({{2, 0}, {1}}).values);
    const Tensor expected = function(Tensor::from(std::vector<int32_t>{2, 0, 1}, {3}));
    EXPECT_TRUE(std::ranges::equal(found.values(), expected.values())) << name;
    const std::string message = message_of<DataError>([&] {
      function(Tensor::from(std::vector<int64_t>{2, 4294967297, 1}, {3}));
    });
    EXPECT_EQ(message, name + ": expected numbers of 32 bits, found 4294967297");
    EXPECT_THROW(function(Tensor::zeros({3}, DType::u8)), ShapeError) << name;
  }
}

}  // namespace
