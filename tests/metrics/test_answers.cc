// Metrics of answers, compared with those of tests/golden/metrics.py.

#include "qkv/metrics/answers.h"

#include <gtest/gtest.h>

#include "golden.h"

namespace {

using namespace qkv::metrics;

TEST(Answers, EqualSquadsDefinition) {
  size_t partial = 0;
  for (const auto& row : golden::read("answers.tsv")) {
    const std::string answer = golden::unescape(row[0]);
    std::vector<std::string> right;
    for (size_t i = 4; i < row.size(); ++i) right.push_back(golden::unescape(row[i]));
    EXPECT_EQ(normalized_answer(answer), golden::unescape(row[1])) << row[0];
    const AnswerScore score = score_answer(answer, right);
    EXPECT_EQ(score.exact, std::stod(row[2])) << row[0];
    EXPECT_NEAR(score.f1, std::stod(row[3]), 1e-12) << row[0];
    partial += score.f1 > 0 && score.f1 < 1 ? 1 : 0;
  }
  EXPECT_GT(partial, 20U);
}

TEST(Answers, InvalidUtf8IsReadAsReplacementCharacters) {
  EXPECT_EQ(normalized_answer("the \xff B"), "\xEF\xBF\xBD b");
}

}  // namespace
