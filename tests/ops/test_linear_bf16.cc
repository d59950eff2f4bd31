// Linear maps in mixed precision.

#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "qkv/ops/general/weighted_sum.h"
#include "qkv/ops/linear.h"
#include "qkv/ops/linear_activate.h"
#include "qkv/ops/linear_cross_entropy.h"
#include "qkv/ops/low_rank.h"
#include "qkv/ops/quantize.h"
#include "tests/support/random.h"

namespace qkv {
namespace {

using testing::random_tensor;

// Products and gradients of the operands rounded to bf16, summed in double precision.
class Bf16Operands : public ::testing::Test {
 protected:
  static constexpr int64_t kTokens = 39, kInputs = 37, kFirst = 20, kSecond = 50, kOutputs = kFirst + kSecond;

  static Tensor rounded(const Tensor& x) { return dequantize(to_dtype({x}, DType::bf16)); }
  static float at(const Tensor& x, int64_t row, int64_t col) { return x.data()[row * x.cols() + col]; }

  Variable x = Variable::parameter(random_tensor({kTokens, kInputs}, 1));
  Variable w1 = Variable::parameter(random_tensor({kFirst, kInputs}, 2)),
           w2 = Variable::parameter(random_tensor({kSecond, kInputs}, 3));
  Variable bias = Variable::parameter(random_tensor({kFirst}, 4));
  LinearWeights weights{{w1, w2}, {bias, Variable()}};
  Tensor read_x = rounded(x.value()), read_w1 = rounded(w1.value()), read_w2 = rounded(w2.value());

  float weight(int64_t output, int64_t input) const {
    return output < kFirst ? at(read_w1, output, input) : at(read_w2, output - kFirst, input);
  }
  double logit(int64_t token, int64_t output) const {
    double sum = output < kFirst ? bias.value().data()[output] : 0.0f;
    for (int64_t i = 0; i < kInputs; ++i) sum += double{at(read_x, token, i)} * weight(output, i);
    return sum;
  }
  // The gradients that belong to the result's, dy.
  void expect_gradients(const Tensor& dy, double tolerance) const {
    const Tensor read_dy = rounded(dy);
    for (int64_t i = 0; i < kInputs; ++i) {
      for (int64_t t = 0; t < kTokens; ++t) {
        double sum = 0;
        for (int64_t o = 0; o < kOutputs; ++o) sum += double{at(read_dy, t, o)} * weight(o, i);
        EXPECT_NEAR(at(x.grad(), t, i), sum, tolerance);
      }
      for (int64_t o = 0; o < kOutputs; ++o) {
        double sum = 0;
        for (int64_t t = 0; t < kTokens; ++t) sum += double{at(read_dy, t, o)} * at(read_x, t, i);
        EXPECT_NEAR(o < kFirst ? at(w1.grad(), o, i) : at(w2.grad(), o - kFirst, i), sum, tolerance);
      }
    }
    for (int64_t o = 0; o < kFirst; ++o) {  // a sum, not a product
      double sum = 0;
      for (int64_t t = 0; t < kTokens; ++t) sum += at(dy, t, o);
      EXPECT_NEAR(bias.grad().data()[o], sum, tolerance);
    }
  }
};

TEST_F(Bf16Operands, Linear) {
  const Tensor dy = random_tensor({kTokens, kOutputs}, 5);
  Tape tape;
  const Variable y = linear(x, weights, WeightLayout::packed_bf16);
  for (int64_t t = 0; t < kTokens; ++t) {
    for (int64_t o = 0; o < kOutputs; ++o) EXPECT_NEAR(at(y.value(), t, o), logit(t, o), 2e-5);
  }
  tape.backward(weighted_sum(y, dy));
  expect_gradients(dy, 2e-5);
  const Tensor unrounded = linear(x, weights, WeightLayout::packed).value();
  EXPECT_NE(at(y.value(), 0, 0), at(unrounded, 0, 0));
}

TEST_F(Bf16Operands, LinearActivate) {
  const Tensor dy = random_tensor({kTokens, kOutputs}, 5);
  Tape tape;
  tape.backward(weighted_sum(
      linear_activate(x, weights, kernels::Activation::relu, {}, WeightLayout::packed_bf16), dy));
  Tensor passed = dy.clone();
  for (int64_t t = 0; t < kTokens; ++t) {
    for (int64_t o = 0; o < kOutputs; ++o) {
      if (logit(t, o) <= 0) passed.data()[t * kOutputs + o] = 0;
    }
  }
  expect_gradients(passed, 2e-5);
}

TEST_F(Bf16Operands, CrossEntropy) {
  std::vector<int32_t> labels;
  for (int64_t t = 0; t < kTokens; ++t) labels.push_back(static_cast<int32_t>(7 * t % kOutputs));
  Tape tape;
  const CrossEntropyResult result =
      linear_cross_entropy(x, weights, Tensor::from(labels, {kTokens}),
                           {.factor = 0.5f, .chunk_rows = 16, .layout = WeightLayout::packed_bf16});
  tape.backward(result.loss);
  double loss = 0;
  Tensor dlogits = Tensor::empty({kTokens, kOutputs});
  for (int64_t t = 0; t < kTokens; ++t) {
    double sum = 0;
    for (int64_t o = 0; o < kOutputs; ++o) sum += std::exp(logit(t, o));
    const int32_t label = labels[static_cast<size_t>(t)];
    loss += std::log(sum) - logit(t, label);
    for (int64_t o = 0; o < kOutputs; ++o) {
      dlogits.data()[t * kOutputs + o] =
          static_cast<float>(0.5 * (std::exp(logit(t, o)) / sum - (o == label ? 1 : 0)));
    }
  }
  EXPECT_NEAR(result.sums().loss, loss, 1e-4);
  // A gradient close to the middle of two bf16 numbers may be rounded to the other: 2^-9 of a number below
  // 0.5, of which few sums have one.
  expect_gradients(dlogits, 1e-3);
}

// The update's own products are not rounded.
TEST_F(Bf16Operands, LowRankUpdateStaysF32) {
  const Variable a = Variable::parameter(random_tensor({3, kInputs}, 6)),
                 b = Variable::parameter(random_tensor({kFirst, 3}, 7));
  const Tensor plain = linear(x, weights, WeightLayout::packed_bf16).value();
  const Weight updated(w1, {}, std::make_shared<LowRank>(LowRank{a, b, 0.5f}));
  const Tensor y =
      linear(x, LinearWeights({updated, w2}, {bias, Variable()}), WeightLayout::packed_bf16).value();
  for (int64_t t = 0; t < kTokens; ++t) {
    for (int64_t o = 0; o < kFirst; ++o) {
      double sum = at(plain, t, o);
      for (int64_t r = 0; r < 3; ++r) {
        double inner = 0;
        for (int64_t i = 0; i < kInputs; ++i) inner += double{at(x.value(), t, i)} * at(a.value(), r, i);
        sum += 0.5 * inner * at(b.value(), o, r);
      }
      EXPECT_NEAR(at(y, t, o), sum, 2e-5);
    }
  }
}

}  // namespace
}  // namespace qkv
