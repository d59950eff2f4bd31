// Metrics of classifiers, compared with scikit-learn and SciPy (tests/golden/classification.py).

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/metrics/classification.h"

namespace qkv::metrics {
namespace {

using nlohmann::json;

json golden() { return json::parse(read_file(QKV_TEST_DATA "/metrics/golden/classification.json")); }

TEST(Classification, EqualsScikitLearn) {
  const json cases = golden()["classes"];
  ASSERT_GT(cases.size(), 5u);
  for (const json& one : cases) {
    SCOPED_TRACE(one["classes"].dump() + " classes, " + std::to_string(one["truths"].size()) + " items");
    ConfusionMatrix matrix(one["classes"]);
    for (size_t i = 0; i < one["truths"].size(); ++i) matrix.add(one["truths"][i], one["predicted"][i]);
    EXPECT_NEAR(matrix.accuracy(), one["accuracy"], 1e-12);
    EXPECT_NEAR(matrix.macro_f1(), one["macro_f1"], 1e-12);
    EXPECT_NEAR(matrix.micro_f1(), one["micro_f1"], 1e-12);
    EXPECT_NEAR(matrix.matthews(), one["matthews"], 1e-12);
    for (int64_t c = 0; c < matrix.classes(); ++c) {
      const auto at = static_cast<size_t>(c);
      EXPECT_NEAR(matrix.f1(c), one["f1"][at], 1e-12);
      EXPECT_NEAR(matrix.precision(c), one["precision"][at], 1e-12);
      EXPECT_NEAR(matrix.recall(c), one["recall"][at], 1e-12);
      for (int64_t p = 0; p < matrix.classes(); ++p)
        EXPECT_EQ(matrix.count(c, p), one["confusion"][at][static_cast<size_t>(p)]);
    }
  }
}

TEST(Classification, ByHand) {
  ConfusionMatrix matrix(2);
  // 3 true positives, 1 false positive, 2 false negatives, 4 true negatives.
  for (const auto& [truth, predicted, count] :
       {std::array{1, 1, 3}, std::array{0, 1, 1}, std::array{1, 0, 2}, std::array{0, 0, 4}}) {
    for (int i = 0; i < count; ++i) matrix.add(truth, predicted);
  }
  EXPECT_DOUBLE_EQ(matrix.accuracy(), 0.7);
  EXPECT_DOUBLE_EQ(matrix.f1(1), 6.0 / 9);
  EXPECT_NEAR(matrix.matthews(), (3 * 4 - 1 * 2) / std::sqrt(4.0 * 5 * 5 * 6), 1e-12);
}

// Like one more predicted class, which no item has.
TEST(Classification, MissingPredictionIsWrong) {
  ConfusionMatrix matrix(2), other(3);
  for (const auto& [truth, predicted] : {std::pair(0, 0), {1, 1}, {1, 1}, {0, 1}}) {
    matrix.add(truth, predicted);
    other.add(truth, predicted);
  }
  matrix.add_without_prediction(1, 2);
  other.add(1, 2);
  other.add(1, 2);
  EXPECT_EQ(matrix.total(), 6);
  EXPECT_EQ(matrix.without_prediction(1), 2);
  EXPECT_DOUBLE_EQ(matrix.accuracy(), 0.5);
  EXPECT_DOUBLE_EQ(matrix.recall(1), 0.5);
  EXPECT_DOUBLE_EQ(matrix.precision(1), 2.0 / 3);
  EXPECT_DOUBLE_EQ(matrix.matthews(), other.matthews());
  EXPECT_DOUBLE_EQ(matrix.micro_f1(), 2 * 3.0 / (4 + 6));
  EXPECT_THROW(matrix.add(2, 0), UsageError);
  EXPECT_THROW(matrix.add(0, -1), UsageError);
  EXPECT_THROW(ConfusionMatrix(0), UsageError);
}

TEST(Classification, CorrelationsEqualSciPy) {
  const json numbers = golden()["numbers"];
  ASSERT_FALSE(numbers.empty());
  for (const json& one : numbers) {
    const auto x = one["x"].get<std::vector<double>>(), y = one["y"].get<std::vector<double>>();
    EXPECT_NEAR(pearson(x, y), one["pearson"], 1e-10);
    EXPECT_NEAR(spearman(x, y), one["spearman"], 1e-10);
    EXPECT_EQ(ranks(x), one["ranks"].get<std::vector<double>>());
  }
  const std::vector<double> constant{2, 2, 2}, other{1, 2, 3}, two{1, 2};
  EXPECT_EQ(pearson(constant, other), 0);
  EXPECT_EQ(spearman(other, constant), 0);
  EXPECT_THROW(pearson(two, other), UsageError);
}

}  // namespace
}  // namespace qkv::metrics
