#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "qkv/base/error.h"
#include "qkv/ops/attention.h"
#include "tests/support/random.h"

namespace qkv {
namespace {

using testing::random_tensor;

// Two sequences of 3 and 5 queries and 4 and 6 keys; 4 query heads, 2 key heads.
struct Batch {
  Tensor query = random_tensor({8, 4, 6}, 1), key = random_tensor({10, 2, 6}, 2),
         value = random_tensor({10, 2, 3}, 3);
  Offsets queries{{0, 3, 8}}, keys{{0, 4, 10}};

  AttentionResult run(AttentionOptions options) const {
    options.query_offsets = queries;
    options.key_offsets = keys;
    return scaled_dot_product_attention(query, key, value, options);
  }
};

TEST(AttentionCapture, LargestWeightsMatchTheWeights) {
  const Batch batch;
  const auto result = batch.run({.causal = true, .return_weights = true, .return_top = 2});
  EXPECT_EQ(result.top_keys.shape(), (Shape{4, 8, 2}));
  for (int64_t s = 0; s < 2; ++s) {
    const Tensor& weights = result.weights[static_cast<size_t>(s)];
    const int64_t queries = weights.dim(1), keys = weights.dim(2);
    for (int64_t h = 0; h < 4; ++h) {
      for (int64_t i = 0; i < queries; ++i) {
        const int64_t number = h * 8 + batch.queries.begin(s) + i;
        const float* row = weights.data() + (h * queries + i) * keys;
        const int32_t first = result.top_keys.data<int32_t>()[2 * number];
        const int32_t second = result.top_keys.data<int32_t>()[2 * number + 1];
        ASSERT_NE(first, second);
        EXPECT_EQ(result.top_weights.data()[2 * number], row[first]);
        EXPECT_EQ(result.top_weights.data()[2 * number + 1], row[second]);
        for (int64_t j = 0; j < keys; ++j) {
          EXPECT_TRUE(j == first || row[j] <= row[second]);
          EXPECT_LE(row[j], row[first]);
        }
      }
    }
  }
}

// With a softcap, ALiBi and a mask; a query without allowed keys has no finite score.
TEST(AttentionCapture, ScoresAreTheSoftmaxInput) {
  const Batch batch;
  Tensor keep = Tensor::empty({1, 1, 1, 6}, DType::u8);
  for (int64_t j = 0; j < 6; ++j) keep.at<uint8_t>(0, 0, 0, j) = j != 0;
  const Tensor slopes = Tensor::from(std::vector{0.5f, 0.25f, 0.1f, 0.0f}, {4});
  const AttentionOptions options{.causal = true,
                                 .alignment = Alignment::first_key,
                                 .keep = keep,
                                 .alibi_slopes = slopes,
                                 .scale = 2,
                                 .softcap = 1.5f,
                                 .return_weights = true,
                                 .return_scores = true};
  const auto result = batch.run(options);
  ASSERT_EQ(result.scores.size(), 2u);
  for (int64_t s = 0; s < 2; ++s) {
    const Tensor &scores = result.scores[static_cast<size_t>(s)],
                 &weights = result.weights[static_cast<size_t>(s)];
    ASSERT_EQ(scores.shape(), weights.shape());
    for (int64_t h = 0; h < 4; ++h) {
      for (int64_t i = 0; i < scores.dim(1); ++i) {
        double sum = 0;
        std::vector<double> expected;
        for (int64_t j = 0; j < scores.dim(2); ++j) {
          double score = 0;
          for (int64_t c = 0; c < 6; ++c) {
            score += 2 * double{batch.query.at(batch.queries.begin(s) + i, h, c)} *
                     batch.key.at(batch.keys.begin(s) + j, h / 2, c);
          }
          score = 1.5 * std::tanh(score / 1.5) - slopes.at(h) * static_cast<double>(std::abs(j - i));
          expected.push_back(j == 0 || j > i ? -std::numeric_limits<double>::infinity() : score);
          sum += std::exp(expected.back());
        }
        for (int64_t j = 0; j < scores.dim(2); ++j) {
          const double wanted = expected[static_cast<size_t>(j)];
          if (std::isinf(wanted)) {
            EXPECT_EQ(scores.at(h, i, j), wanted);
            EXPECT_EQ(weights.at(h, i, j), 0.0f);
          } else {
            EXPECT_NEAR(scores.at(h, i, j), wanted, 2e-6);
            EXPECT_NEAR(weights.at(h, i, j), std::exp(wanted) / sum, 2e-6);
          }
        }
      }
    }
  }
  AttentionOptions without = options;
  without.return_weights = false;
  EXPECT_TRUE(batch.run(without).weights.empty());
}

TEST(AttentionCapture, DenseInputsMustMatch) {
  const Tensor query = random_tensor({2, 3, 1, 4}, 1), key = random_tensor({2, 5, 1, 4}, 2);
  EXPECT_THROW(scaled_dot_product_attention(query, key, random_tensor({1, 10, 1, 4}, 3)), ShapeError);
  EXPECT_THROW(scaled_dot_product_attention(query, key, key, {.key_offsets = Offsets({0, 10})}), UsageError);
  EXPECT_THROW(scaled_dot_product_attention(query, key, key, {.key_heads = 2}), UsageError);
  EXPECT_NO_THROW(scaled_dot_product_attention(query, key, key));
}

TEST(AttentionCapture, RefusesOptionsThatContradictTheInputs) {
  const Batch batch;
  EXPECT_THROW(batch.run({.return_top = -1}), UsageError);
  EXPECT_THROW(batch.run({.alibi_slopes = random_tensor({3}, 4)}), ShapeError);
  EXPECT_THROW(batch.run({.relative_bias = random_tensor({2, 3}, 4)}), ShapeError) << "too short";
  EXPECT_THROW(batch.run({.relative_bias = random_tensor({2, 40}, 4)}), ShapeError) << "no middle";
  EXPECT_THROW(batch.run({.relative_bias = random_tensor({3, 41}, 4)}), ShapeError) << "heads";
  EXPECT_THROW(batch.run({.softcap = -1}), UsageError);
  EXPECT_THROW(batch.run({.softcap = std::numeric_limits<float>::infinity()}), UsageError);
  EXPECT_THROW(batch.run({.key_heads = 4}), UsageError) << "the keys have 2";
  EXPECT_NO_THROW(batch.run({.key_heads = 2}));
  const Tensor three = random_tensor({10, 3, 6}, 5);
  EXPECT_THROW(scaled_dot_product_attention(batch.query, three, three), ShapeError);
}

}  // namespace
}  // namespace qkv
