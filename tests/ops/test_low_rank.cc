// Low-rank updates of weights: products and gradients.

#include "qkv/ops/low_rank.h"

#include <gtest/gtest.h>

#include "qkv/ops/activation.h"
#include "qkv/ops/general/weighted_sum.h"
#include "qkv/ops/linear_activate.h"
#include "qkv/ops/linear_cross_entropy.h"
#include "qkv/ops/quantize.h"
#include "tests/ops/gradient_check.h"
#include "tests/support/random.h"

namespace {

using namespace qkv;
using namespace qkv::testing;

// A weight with an update of these matrices.
Weight updated(const QuantizedTensor& value, const Variable& a, const Variable& b, float scale) {
  return {value.values, value.scales.defined() ? Variable(value.scales) : Variable(),
          std::make_shared<const LowRank>(LowRank{a, b, scale})};
}

// W + scale B A, in double precision.
Tensor whole(const Tensor& weight, const Tensor& a, const Tensor& b, float scale) {
  Tensor result = weight.clone();
  for (int64_t i = 0; i < weight.rows(); ++i) {
    for (int64_t j = 0; j < weight.cols(); ++j) {
      double sum = 0;
      for (int64_t r = 0; r < a.rows(); ++r) sum += double{b.at(i, r)} * a.at(r, j);
      result.values()[static_cast<size_t>(i * weight.cols() + j)] += static_cast<float>(scale * sum);
    }
  }
  return result;
}

class LowRankOf : public ::testing::TestWithParam<DType> {};

// Only the second of two weights in one product has an update.
TEST_P(LowRankOf, EqualsAProductWithTheSum) {
  const Tensor x = random_tensor({7, 40}, 1), bias = random_tensor({9}, 2);
  const QuantizedTensor first = to_dtype({random_tensor({24, 40}, 3)}, GetParam()),
                        second = to_dtype({random_tensor({9, 40}, 4)}, GetParam());
  const Tensor a = random_tensor({5, 40}, 5), b = random_tensor({9, 5}, 6);
  const LinearWeights plain({Weight(first), Weight(second)}, {Variable(), bias}),
      with({Weight(first), updated(second, a, b, 0.5f)}, {Variable(), bias});
  const Tensor update = whole(Tensor::zeros({9, 40}), a, b, 0.5f);
  for (const WeightLayout layout : {WeightLayout::in_place, WeightLayout::packed}) {
    const Tensor base = linear(x, plain, layout).value(), y = linear(x, with, layout).value();
    double largest = 0;
    for (int64_t i = 0; i < 7; ++i) {
      for (int64_t j = 0; j < 33; ++j) {
        double sum = base.at(i, j);
        for (int64_t l = 0; j >= 24 && l < 40; ++l) sum += double{x.at(i, l)} * update.at(j - 24, l);
        EXPECT_NEAR(y.at(i, j), sum, 2e-5) << i << ", " << j;
        largest = std::max(largest, std::abs(sum - double{base.at(i, j)}));
      }
    }
    EXPECT_GT(largest, 1);
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, LowRankOf, ::testing::ValuesIn(kWeightDTypes),
                         [](const auto& one) { return std::string(name_of(one.param)); });

TEST(LowRank, RowsAreIndependent) {
  const Tensor x = random_tensor({33, 40}, 1);
  const LinearWeights weights(
      {updated({random_tensor({24, 40}, 2)}, random_tensor({4, 40}, 3), random_tensor({24, 4}, 4), 2.0f)});
  const Tensor all = linear(x, weights).value();
  for (const int64_t row : {0, 17, 32}) {
    const Tensor alone = linear(x.slice_rows(row, 1).clone(), weights).value();
    for (int64_t j = 0; j < 24; ++j) EXPECT_EQ(alone.at(0, j), all.at(row, j)) << row << ", " << j;
  }
}

TEST(LowRank, Gradients) {
  const Tensor w = random_tensor({9, 12}, 7), w2 = random_tensor({6, 12}, 8);
  check_gradients(
      {.function =
           [&](const std::vector<Variable>& in) {
             const LinearWeights weights({updated({w}, in[1], in[2], 0.7f), Weight(w2)});
             return linear(in[0], weights, WeightLayout::packed);
           },
       .inputs = {random_tensor({5, 12}, 1), random_tensor({3, 12}, 2), random_tensor({9, 3}, 3)}});
}

// linear_activate() of ReLU has a backward function of its own.
TEST(LowRank, GradientsThroughRelu) {
  const Tensor w = random_tensor({9, 12}, 7), dy = random_tensor({5, 9}, 9);
  const std::vector<Tensor> inputs{random_tensor({5, 12}, 1), random_tensor({3, 12}, 2),
                                   random_tensor({9, 3}, 3)};
  const auto gradients = [&](bool together) {
    return backward(inputs, [&](const std::vector<Variable>& in) {
      const LinearWeights weights({updated({w}, in[1], in[2], 0.7f)});
      const auto relu = kernels::Activation::relu;
      return weighted_sum(together ? linear_activate(in[0], weights, relu, {}, WeightLayout::packed)
                                   : activate(linear(in[0], weights, WeightLayout::packed), relu, {}),
                          dy);
    });
  };
  const Gradients found = gradients(true), expected = gradients(false);
  for (size_t i = 0; i < inputs.size(); ++i) {
    for (size_t j = 0; j < found[i].values().size(); ++j)
      EXPECT_NEAR(found[i].values()[j], expected[i].values()[j], 1e-5) << i << ", " << j;
  }
}

// A frozen int8 weight: the update learns, and x gets the gradient of both products.
TEST(LowRank, GradientsOverAFrozenInt8Weight) {
  const QuantizedTensor w = to_dtype({random_tensor({9, 12}, 7)}, DType::i8);
  const Tensor dequantised = dequantize(w), dy = random_tensor({5, 9}, 9);
  const std::vector<Tensor> inputs{random_tensor({5, 12}, 1), random_tensor({3, 12}, 2),
                                   random_tensor({9, 3}, 3)};
  const auto gradients = [&](const QuantizedTensor& weight) {
    return backward(inputs, [&](const std::vector<Variable>& in) {
      const LinearWeights weights({updated(weight, in[1], in[2], 0.7f)});
      return weighted_sum(linear(in[0], weights, WeightLayout::packed), dy);
    });
  };
  const Gradients found = gradients(w), expected = gradients({dequantised});
  for (size_t i = 0; i < inputs.size(); ++i) {
    ASSERT_TRUE(found[i].defined());
    for (size_t j = 0; j < found[i].values().size(); ++j)
      EXPECT_EQ(found[i].values()[j], expected[i].values()[j]) << i << ", " << j;
  }
}

TEST(LowRank, RejectsMismatchedMatrices) {
  const Tensor x = random_tensor({2, 12}, 1), w = random_tensor({9, 12}, 2);
  const auto run = [&](const Tensor& a, const Tensor& b) {
    return linear(x, LinearWeights({updated({w}, a, b, 1)}));
  };
  EXPECT_NO_THROW(run(random_tensor({3, 12}, 3), random_tensor({9, 3}, 4)));
  EXPECT_THROW(run(random_tensor({3, 11}, 3), random_tensor({9, 3}, 4)), ShapeError);
  EXPECT_THROW(run(random_tensor({3, 12}, 3), random_tensor({9, 4}, 4)), ShapeError);
  EXPECT_THROW(run(random_tensor({3, 12}, 3), random_tensor({8, 3}, 4)), ShapeError);
  const Tensor a = random_tensor({3, 12}, 3), b = random_tensor({9, 3}, 4);
  const Tensor labels = Tensor::from(std::vector<int32_t>{1, 2}, {2});
  EXPECT_THROW(linear_cross_entropy(x, LinearWeights({updated({w}, a, b, 1)}), labels, {}), UsageError);
}

}  // namespace
