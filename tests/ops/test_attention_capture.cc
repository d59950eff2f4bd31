#include <gtest/gtest.h>

#include <cmath>

#include "qkv/base/error.h"
#include "qkv/ops/attention.h"
#include "tests/support/random.h"

namespace qkv {
namespace {

using testing::random_tensor;

// Two sequences of 3 and 5 queries and 4 and 6 keys; 4 heads of queries to 2 of keys.
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

TEST(AttentionCapture, ChosenHeadsAndQueriesAreThoseOfAll) {
  const Batch batch;
  const auto all = batch.run({.return_weights = true});
  const auto some = batch.run({.return_weights = true, .weight_heads = {3, 1}, .weight_queries = {4, 0}});
  ASSERT_EQ(some.weights.size(), 2u);
  EXPECT_EQ(some.weights[0].shape(), (Shape{2, 1, 4}));  // the first sequence has no query 4
  EXPECT_EQ(some.weights[1].shape(), (Shape{2, 2, 6}));
  const auto at = [](const Tensor& w, int64_t h, int64_t i, int64_t j) {
    return w.data()[(h * w.dim(1) + i) * w.dim(2) + j];
  };
  for (int64_t h = 0; h < 2; ++h) {
    for (int64_t j = 0; j < 4; ++j)
      EXPECT_EQ(at(some.weights[0], h, 0, j), at(all.weights[0], 3 - 2 * h, 0, j));
    for (int64_t j = 0; j < 6; ++j) {
      EXPECT_EQ(at(some.weights[1], h, 0, j), at(all.weights[1], 3 - 2 * h, 4, j));
      EXPECT_EQ(at(some.weights[1], h, 1, j), at(all.weights[1], 3 - 2 * h, 0, j));
    }
  }
}

TEST(AttentionCapture, EntropyAndLargestWeightsAreThoseOfTheWeights) {
  const Batch batch;
  const auto result =
      batch.run({.causal = true, .return_weights = true, .return_entropy = true, .return_top = 2});
  EXPECT_EQ(result.entropy.shape(), (Shape{4, 8}));
  EXPECT_EQ(result.top_keys.shape(), (Shape{4, 8, 2}));
  for (int64_t s = 0; s < 2; ++s) {
    const Tensor& weights = result.weights[static_cast<size_t>(s)];
    const int64_t queries = weights.dim(1), keys = weights.dim(2);
    for (int64_t h = 0; h < 4; ++h) {
      for (int64_t i = 0; i < queries; ++i) {
        const int64_t number = h * 8 + batch.queries.begin(s) + i;
        const float* row = weights.data() + (h * queries + i) * keys;
        double entropy = 0;
        for (int64_t j = 0; j < keys; ++j)
          entropy -= row[j] > 0 ? double{row[j]} * std::log(double{row[j]}) : 0;
        EXPECT_NEAR(result.entropy.data()[number], entropy, 2e-6);
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

TEST(AttentionCapture, RefusesWhatIsNotThere) {
  const Batch batch;
  EXPECT_THROW(batch.run({.return_weights = true, .weight_heads = {4}}), UsageError);
  EXPECT_THROW(batch.run({.return_weights = true, .weight_queries = {5}}), UsageError);
  EXPECT_THROW(batch.run({.return_weights = true, .weight_heads = {1, 1}}), UsageError);
  EXPECT_THROW(batch.run({.return_top = -1}), UsageError);
  EXPECT_THROW(batch.run({.alibi_slopes = random_tensor({3}, 4)}), ShapeError);
  EXPECT_THROW(batch.run({.relative_bias = random_tensor({2, 3}, 4)}), ShapeError) << "too short";
  EXPECT_THROW(batch.run({.relative_bias = random_tensor({2, 40}, 4)}), ShapeError) << "no middle";
  EXPECT_THROW(batch.run({.relative_bias = random_tensor({3, 41}, 4)}), ShapeError) << "heads";
  const Tensor three = random_tensor({10, 3, 6}, 5);
  EXPECT_THROW(scaled_dot_product_attention(batch.query, three, three), ShapeError);
}

}  // namespace
}  // namespace qkv
